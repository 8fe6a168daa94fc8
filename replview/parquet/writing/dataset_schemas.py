"""``_schema.json``: the schema that reads every file of a dataset, of whatever slice.

Files of different slices may differ: a column came, went, or became wider. Published is what holds
them all: the newest shape's columns, then those it had before. What cannot be read as one (a column
that became another kind of type) needs a root of its own (``dataset_roots``).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from replview.parquet.slice_schemas import (
    CHANGE_FIELDS,
    EVENTS,
    TRANSACTIONS,
    Column,
    slice_columns,
)
from replview.parquet.slices import SliceTable, TableVersion
from replview.parquet.writing.problems import TargetProblem

_SPARK = {
    pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int",
    pa.int64(): "bigint", pa.float32(): "float", pa.float64(): "double", pa.string(): "string",
    pa.binary(): "binary", pa.date32(): "date", pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
}  # fmt: skip
_WHOLE = {"smallint": 5, "int": 10, "bigint": 19}
_WIDTHS = list(_WHOLE)


class Incompatible(TargetProblem):
    """No schema reads the files that are there and the new ones; ``reason`` is why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: no schema reads both", "export into a new root folder")
        self.reason = reason

    def __reduce__(self) -> Any:
        return type(self), (self.reason,)


def spark_type(arrow: pa.DataType) -> str:
    """As Spark's DDL writes it."""
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
) -> dict[str, Any]:
    """What a table's dataset publishes, with a slice more in it; ``follows``: of a new root, which
    one it goes on from, and why. Raises ``Incompatible``.
    """
    known = before or {}
    versions = {each["number"]: each for each in known.get("versions", [])}
    anew = before is not None and known["table"]["oid"] != table.oid
    for version in table.versions:
        shape = _version(version)
        if anew and versions.get(version.number, shape) != shape:
            raise Incompatible(f"{table.name} was dropped and made anew with other columns")
        versions[version.number] = shape
    shapes = [versions[number] for number in sorted(versions)]
    columns = slice_columns([shape["columns"] for shape in reversed(shapes)])
    oids = {table.oid, *known.get("table", {}).get("oids", ())}
    if before is not None:
        oids.add(known["table"]["oid"])
    document = {
        "format": 1,
        "table": {
            "schema": table.schema,
            "name": table.table,
            "oid": table.oid,
            # Of a table that was made anew, all of them.
            **({"oids": sorted(oids)} if len(oids) > 1 else {}),
        },
        "key_columns": _key(columns, shapes[-1]["key_columns"]),
        "columns": [_column(column) for column in columns] + [_field(f) for f in CHANGE_FIELDS],
        "partition_columns": [{"name": "commit_date", "type": "date"}],
        "versions": shapes,
    }
    follows = follows or known.get("follows")
    if follows is not None:
        document["follows"] = dict(follows)
    _check_widening(before, document, table)
    return document


def document_oids(document: Mapping[str, Any]) -> list[int]:
    """The tables, by their oids, whose changes stand in a root."""
    table = document["table"]
    return [int(oid) for oid in table.get("oids") or [table["oid"]]]


def _version(version: TableVersion) -> dict[str, Any]:
    return {
        "number": version.number,
        "columns": [dict(column) for column in version.columns],
        "key_columns": list(version.key_columns),
        "replica_identity": version.replica_identity,
    }


def fixed_document(kind: str) -> dict[str, Any]:
    """What the datasets of transactions and of events publish."""
    schema = {"transactions": TRANSACTIONS, "events": EVENTS}[kind]
    return {
        "format": 1,
        "columns": [_field(each) for each in schema],
        "partition_columns": [{"name": "commit_date", "type": "date"}],
    }


def written(document: Mapping[str, Any]) -> bytes:
    """As the file has it."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"


def _key(columns: Sequence[Column], key: Sequence[str]) -> list[str]:
    """What a row is known by, by its names in the file."""
    names = {column.source_name: column.name for column in columns}
    return [names[each] for each in key if each in names]


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": spark_type(column.arrow),
        "source_name": column.source_name,
        "pg_type": column.pg_type,
        "note": column.note,
    }


def _field(field: pa.Field) -> dict[str, Any]:
    return {"name": field.name, "type": spark_type(field.type)}


def _check_widening(
    before: Mapping[str, Any] | None, now: Mapping[str, Any], table: SliceTable
) -> None:
    """Files written before, and the slice's own, must be readable by what is published now."""
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
    """Whether one schema reads files of each of these shapes alone."""
    published = {
        column.name: column
        for column in slice_columns([each.columns for each in reversed(versions)])
    }
    for version in versions:
        for column in slice_columns([version.columns]):
            found = published.get(column.name)
            if found is None or found.source_name != column.source_name:
                return False
            kind, wanted = spark_type(column.arrow), spark_type(found.arrow)
            if kind != wanted and not reads(kind, wanted):
                return False
    return True


def reads(file: str, schema: str) -> bool:
    """Whether every reader takes a file's type for the schema's, exactly."""
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
    """Digits before and behind the point."""
    if not kind.startswith("decimal("):
        return None
    precision, scale = kind[8:-1].split(",")
    return int(precision) - int(scale), int(scale)
