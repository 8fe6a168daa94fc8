"""Choose a table's dataset root for a slice, and the ``_schema.json`` that reads all its files.

Files of different slices may differ: a column was added, dropped, or became wider. The published
schema holds them all: the newest shape's columns, then those it had before. Where no schema reads
all files (a column that became another kind of type, a table created again with other columns), the
slice opens a new root (``layout``), and readers of the table read all its roots. In an archive's
slice each stretch of a table (``planning.StretchesOf``) has one root. A slice that was begun
continues in the root that has its files, even if a later root exists.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from replview.parquet.slice_schemas import (
    CHANGE_FIELDS,
    EVENTS,
    PARTITION,
    TRANSACTIONS,
    SliceColumn,
    slice_columns,
)
from replview.parquet.slices import SliceTable, TableVersion
from replview.parquet.writing import layout
from replview.parquet.writing.files import FilePart
from replview.parquet.writing.manifests import Manifest
from replview.parquet.writing.planning import ExportPlan
from replview.parquet.writing.problems import TargetProblem
from replview.parquet.writing.targets import Target

_SPARK = {
    pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int",
    pa.int64(): "bigint", pa.float32(): "float", pa.float64(): "double", pa.string(): "string",
    pa.binary(): "binary", pa.date32(): "date", pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
}  # fmt: skip
_WHOLE = {"smallint": 5, "int": 10, "bigint": 19}
_WIDTHS = list(_WHOLE)


class Incompatible(TargetProblem):
    """No schema reads both the existing files and the new ones; ``reason`` is why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: no schema reads both", "export into a new root folder")
        self.reason = reason

    def __reduce__(self) -> Any:
        return type(self), (self.reason,)


def spark_type(arrow: pa.DataType) -> str:
    """Return the type as Spark's DDL writes it."""
    if pa.types.is_list(arrow):
        return f"array<{spark_type(arrow.value_type)}>"
    if pa.types.is_map(arrow):
        return f"map<{spark_type(arrow.key_type)},{spark_type(arrow.item_type)}>"
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    return _SPARK[arrow]


def table_document(
    table: SliceTable,
    before: Mapping[str, Any] | None,
    follows: Mapping[str, Any] | None = None,
) -> dict[str, object]:
    """Return a dataset's schema document; ``follows``: the root before. Raises ``Incompatible``."""
    known = before or {}
    versions = {each["number"]: each for each in known.get("versions", [])}
    anew = before is not None and known["table"]["oid"] != table.oid
    for version in table.versions:
        shape = version.to_json()
        del shape["id"]
        if anew and versions.get(version.number, shape) != shape:
            raise Incompatible(f"{table.name} was dropped and made anew with other columns")
        versions[version.number] = shape
    shapes = [versions[number] for number in sorted(versions)]
    columns = slice_columns([shape["columns"] for shape in reversed(shapes)])
    names = {column.source_name: column.name for column in columns}
    oids = {table.oid, *(document_oids(before) if before is not None else ())}
    document = {
        "format": 2,
        "table": {
            "schema": table.schema,
            "name": table.table,
            "oid": table.oid,
            # A table that was created again has all its oids here.
            **({"oids": sorted(oids)} if len(oids) > 1 else {}),
        },
        "key_columns": [names[each] for each in shapes[-1]["key_columns"] if each in names],
        "columns": [_column(column) for column in columns] + [_field(f) for f in CHANGE_FIELDS],
        "partition_columns": [{"name": PARTITION, "type": "date"}],
        "versions": shapes,
    }
    follows = follows or known.get("follows")
    if follows is not None:
        document["follows"] = dict(follows)
    _check_widening(before, document, table)
    return document


def document_oids(document: Mapping[str, Any]) -> list[int]:
    """Return the oids of the tables whose changes are in a root."""
    table = document["table"]
    return [int(oid) for oid in table.get("oids") or [table["oid"]]]


def fixed_document(kind: str) -> dict[str, object]:
    """Return what the datasets of transactions and of events publish."""
    schema = {"transactions": TRANSACTIONS, "events": EVENTS}[kind]
    return {
        "format": 1,
        "columns": [_field(each) for each in schema],
        "partition_columns": [{"name": PARTITION, "type": "date"}],
    }


def _column(column: SliceColumn) -> dict[str, object]:
    return {
        "name": column.name,
        "type": spark_type(column.arrow),
        "source_name": column.source_name,
        "pg_type": column.pg_type,
        "note": column.note,
    }


def _field(field: pa.Field) -> dict[str, object]:
    return {"name": field.name, "type": spark_type(field.type)}


def _check_widening(
    before: Mapping[str, Any] | None, now: Mapping[str, Any], table: SliceTable
) -> None:
    """Raise ``Incompatible`` unless the published schema reads earlier files and the new ones."""
    published = {each["name"]: each for each in now["columns"]}
    written_now = {column.name: _column(column) for column in table.columns}
    for each in (*(before or {}).get("columns", []), *written_now.values()):
        name, kind = each["name"], each["type"]
        found = published.get(name, {})
        wanted = found.get("type", "")
        same = found.get("source_name") == each.get("source_name", found.get("source_name"))
        if not same or (kind != wanted and not reads(kind, wanted)):
            own = written_now.get(name, {}).get("type") or wanted or "missing"
            there = {c["name"]: c["type"] for c in (before or {}).get("columns", [])}.get(name)
            raise Incompatible(
                f"column {name} of {table.name} is {there or kind} in the files that are there and "
                f"{own} now"
            )


def reads_as_one(versions: Sequence[TableVersion]) -> bool:
    """Return whether one schema reads files of each of these shapes alone."""
    of_all = slice_columns([each.columns for each in reversed(versions)])
    published = {(each.name, each.source_name): spark_type(each.arrow) for each in of_all}
    for column in (each for version in versions for each in slice_columns([version.columns])):
        kind, wanted = spark_type(column.arrow), published.get((column.name, column.source_name))
        if wanted is None or (kind != wanted and not reads(kind, wanted)):
            return False
    return True


def reads(file: str, schema: str) -> bool:
    """Return whether every reader reads a file's type as the schema's, exactly."""
    if file in _WHOLE and schema in _WHOLE:
        return _WIDTHS.index(file) <= _WIDTHS.index(schema)
    new = _decimal(schema)
    if new is None:
        return False
    if file in _WHOLE:
        return new[0] >= _WHOLE[file]
    old = _decimal(file)
    return old is not None and new[0] >= old[0] and new[1] >= old[1]


def _decimal(kind: str) -> tuple[int, int] | None:
    """Return the digits before and behind the point; None where the type is no decimal."""
    if not kind.startswith("decimal("):
        return None
    precision, scale = kind[8:-1].split(",")
    return int(precision) - int(scale), int(scale)


@dataclass(frozen=True, slots=True)
class Placed:
    """A plan whose files have the roots that they go to."""

    plan: ExportPlan
    #: Path of a ``_schema.json`` → what it will publish.
    schemas: Mapping[str, Mapping[str, Any]]
    #: The paths of ``schemas`` that do not exist yet.
    opened: tuple[str, ...]


def place(plan: ExportPlan, target: Target) -> Placed:
    """Choose the root of each table and of each stretch of it."""
    incarnation = layout.incarnation_folder(plan.part_of)
    roots = layout.roots_by_dataset(target.folders(incarnation))
    folders, documents, opened = dict(plan.folders), dict[str, dict[str, Any]](), []

    def published(folder: str) -> dict[str, Any] | None:
        path = f"{folder}/{layout.SCHEMA}"
        return documents.get(path) or target.read_json(path)

    for key in plan.tables:
        first = plan.folders[key]
        names = roots.setdefault(first.rpartition("/")[2], [])
        known = {f"{incarnation}/{name}": published(f"{incarnation}/{name}") for name in names}
        there = _candidates(plan, key, {path: each for path, each in known.items() if each}, target)
        folder, document = _root_for(plan, key, first, there)
        folders[key] = folder
        documents[f"{folder}/{layout.SCHEMA}"] = document
        if folder not in there:
            names.append(folder.rpartition("/")[2])
            opened.append(f"{folder}/{layout.SCHEMA}")
    parts: list[FilePart] = []
    for one in plan.parts:
        if one.relation_id is None:
            documents[f"{one.dataset}/{layout.SCHEMA}"] = fixed_document(one.kind)
            parts.append(one)
        else:
            folder = folders[one.relation_id]
            path = f"{folder}{one.path.removeprefix(one.dataset)}"
            parts.append(replace(one, dataset=folder, path=path))
    return Placed(replace(plan, folders=folders, parts=tuple(parts)), documents, tuple(opened))


def publish(placed: Placed, target: Target, paths: Iterable[str]) -> None:
    """Write schemas, each together with what other slices have published there meanwhile.

    Raises ``Incompatible`` if another slice has opened the same root with other types.
    """
    keys = defaultdict[str, list[int]](list)
    for key, folder in placed.plan.folders.items():
        keys[f"{folder}/{layout.SCHEMA}"].append(key)
    for path in paths:
        document, published = placed.schemas[path], target.read_json(path)
        for key in keys[path] if published is not None else ():
            document = published = _root_document(placed.plan, key, published)
        target.write_json(path, document)


def roots_of(target: Target, incarnation: str, own: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the roots with a table's changes, also under former names, the ``own`` folder last.

    Each is a path and what it publishes. Empty where the own folder publishes nothing.
    """
    names = [name for name in target.folders(incarnation) if "." in name]
    with ThreadPoolExecutor(8) as threads:
        paths = (f"{incarnation}/{name}/{layout.SCHEMA}" for name in names)
        found = dict(zip(names, threads.map(target.read_json, paths), strict=True))
    published = {name: document for name, document in found.items() if document}
    if own not in published:
        return []
    mine, newest = {*document_oids(published[own])}, dict[str, int]()
    for name, document in published.items():
        if name != own and mine & {*document_oids(document)}:
            newest[name] = document["versions"][-1]["number"]
    there = sorted(newest, key=lambda name: (newest[name], layout.root_of(name)))
    return [(f"{incarnation}/{name}", published[name]) for name in [*there, own]]


def newly_opened(manifest: Manifest, target: Target) -> Iterator[tuple[str, str]]:
    """Yield the roots that a slice opened: ``(folder, why)``."""
    seqs = manifest.document["commit_seq"]
    for table in manifest.document["tables"]:
        if layout.root_of(table["dataset"])[1] == 1:
            continue
        follows = (target.read_json(f"{table['dataset']}/{layout.SCHEMA}") or {}).get("follows")
        if follows and seqs["after"] <= follows["after_seq"] < seqs["through"]:
            yield table["dataset"], follows["because"]


def _candidates(
    plan: ExportPlan, key: int, known: Mapping[str, dict[str, Any]], target: Target
) -> dict[str, dict[str, Any]]:
    """Return the roots and what they publish: first those with this slice's files, then by age."""
    order = list(known)
    if len(order) > 1:
        mine = [one for one in plan.parts if one.relation_id == key]
        names = {one.path.removeprefix(one.dataset) for one in mine}
        held = {
            folder: any(
                f.path.removeprefix(folder) in names for f in target.files(folder, deep=True)
            )
            for folder in order
        }
        order.sort(key=lambda folder: (held[folder], layout.root_of(folder)[1]), reverse=True)
    return {folder: known[folder] for folder in order}


def _root_for(
    plan: ExportPlan, key: int, first: str, there: Mapping[str, dict[str, Any]]
) -> tuple[str, dict[str, Any]]:
    """Return the root's folder, and what it will publish."""
    reasons = dict[str, str]()
    for folder, document in there.items():
        try:
            return folder, _root_document(plan, key, document)
        except Incompatible as error:
            reasons[folder] = error.reason
    if not there:
        return first, _root_document(plan, key, None)
    newest = max(there, key=lambda folder: layout.root_of(folder)[1])
    follows = {"dataset": newest.rpartition("/")[2], "because": reasons[newest],
               "after_seq": plan.begins[key]}  # fmt: skip
    folder = layout.root_folder(first, layout.root_of(newest)[1] + 1)
    return folder, _root_document(plan, key, None, follows)


def _root_document(
    plan: ExportPlan,
    key: int,
    before: Mapping[str, Any] | None,
    follows: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what a root publishes with the plan's files of a table. Raises ``Incompatible``."""
    document = table_document(plan.tables[key], before, follows)
    if plan.part_of.before == "full" and (before is None or before.get("whole")):
        # The rows of all its slices are whole.
        document["whole"] = True
    return document
