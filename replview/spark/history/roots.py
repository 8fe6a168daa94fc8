"""Read a folder of a table's changes as one frame, and several folders as one table."""

# All names in SQL are ours, and values of others are literals.
# ruff: noqa: S608

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from replview.parquet.pg_values import pg_text
from replview.parquet.slice_schemas import CHANGE_FIELDS, DAY, PARTITION, SliceColumn
from replview.parquet.slices import SliceTable, TableVersion
from replview.parquet.writing import layout
from replview.parquet.writing.targets import Target
from replview.spark.history.engines import DataFrame, ParquetFiles, Session, by_batch
from replview.spark.sessions import SparkProblem

# A table whose column got an incompatible type has several folders (``writing.layout``), each with
# a schema of its own. Read together, a column has the type that holds all its values: the server's
# text if no other type does, as within one slice.


@dataclass(frozen=True)
class DatasetRoot:
    """A folder of a table's changes."""

    target: Target
    #: Path relative to the target.
    folder: str
    #: OID of the table; 0 when unknown.
    oid: int
    #: Files with the table's changes, relative to the target; empty when unknown. The folder may
    #: also have files of another table with the same name, and during compaction rows exist twice.
    files: tuple[str, ...] = ()

    @cached_property
    def _document(self) -> Mapping[str, Any]:
        path = f"{self.folder}/{layout.SCHEMA}"
        document = self.target.read_json(path)
        if document is None:
            raise SparkProblem(
                f"{path} is missing", "export the slice again: its files say nothing without it"
            )
        return document

    @cached_property
    def relation(self) -> SliceTable:
        """Return the table with all versions that the changes here were made under."""
        document = self._document
        table, versions = document["table"], map(TableVersion.from_json, document["versions"])
        return SliceTable(relation_id=0, oid=self.oid, schema=table["schema"],
                          table=table["name"], versions=tuple(versions))  # fmt: skip

    def changes(self, session: Session, condition: str, wanted: Sequence[SliceColumn]) -> DataFrame:
        """Return the rows that satisfy an SQL condition, with the columns of the whole table.

        They are named ``value<n>``, so that no name on the source is one of SQL's or of ours.
        """
        files = self.parquet.frame(session)
        rows = session.sql(f"SELECT * FROM {{files}} WHERE {condition}", files=files)
        own, more = self.relation.columns, [*CHANGE_FIELDS, DAY]
        if _types(own) != _types(wanted):
            types = [pa.field(column.name, column.arrow) for column in wanted]
            rows = by_batch(rows, partial(as_one, own, wanted), pa.schema([*types, *more]))
        return rows.toDF(*(f"value{n}" for n in range(len(wanted))), *(each.name for each in more))

    @property
    def parquet(self) -> ParquetFiles:
        """Return the files with the table's rows."""
        return ParquetFiles(self.target, self.folder, self.relation.arrow_schema(), self.files)


def merged(tables: Sequence[SliceTable], name: str) -> SliceTable:
    """Return a table from all its roots in order, with every version and its last name."""
    shapes: list[TableVersion] = []
    for table in tables:
        known = {shape.number: shape for shape in shapes}
        shapes += [one for one in table.versions if known.get(one.number) != one]
    shapes.sort(key=lambda shape: shape.number)
    last = next((each for each in reversed(tables) if each.name == name), tables[-1])
    return replace(last, versions=tuple(shapes))


def _types(columns: Sequence[SliceColumn]) -> list[tuple[str, pa.DataType]]:
    return [(column.source_name, column.arrow) for column in columns]


def as_one(own: Sequence[SliceColumn], wanted: Sequence[SliceColumn], rows: pa.Table) -> pa.Table:
    """Return rows of a root with the columns and types of the whole table."""
    there = {column.source_name: column for column in own}
    raw = [dict(each or ()) for each in rows["_pg_raw"].to_pylist()]
    found: dict[str, Any] = {}
    for column in wanted:
        mine = there.get(column.source_name)
        if mine is None:
            found[column.name] = pa.nulls(rows.num_rows, column.arrow)
        elif pa.types.is_string(column.arrow) and mine.arrow != column.arrow:
            found[column.name] = _texts(rows[mine.name].to_pylist(), mine, raw)
        else:
            found[column.name] = rows[mine.name].cast(column.arrow)
    others = [*(field.name for field in CHANGE_FIELDS), PARTITION]
    found |= {name: rows[name] for name in others}
    found["_pg_raw"] = pa.array([[*each.items()] for each in raw], rows["_pg_raw"].type)
    return pa.table(found)


def _texts(
    values: Sequence[object], column: SliceColumn, raw: Sequence[dict[str, str]]
) -> pa.Array:
    """Return values as text; one that its column could not hold is moved from ``raw``."""
    found = [pg_text(value, column.arrow) for value in values]
    for n, texts in enumerate(raw):
        text = texts.get(column.source_name)
        # A mark (masked, erased) is no value.
        if text is not None and not text.startswith('{"$'):
            found[n] = texts.pop(column.source_name)
    return pa.array(found, pa.string())
