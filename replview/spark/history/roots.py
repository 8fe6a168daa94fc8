"""Read a folder of a table's changes as one frame, and several folders as one table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from replview.parquet.slice_schemas import CHANGE_FIELDS, PARTITION, SliceColumn
from replview.parquet.slices import SliceTable, TableVersion
from replview.parquet.writing import layout
from replview.parquet.writing.targets import Target
from replview.spark.history.engines import (
    DataFrame,
    Expression,
    F,
    ParquetFiles,
    Session,
    arrow_type,
    text_of,
)
from replview.spark.quoting import tick
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


def as_one(
    session: Session, frame: DataFrame, own: Sequence[SliceColumn], wanted: Sequence[SliceColumn]
) -> DataFrame:
    """Return the rows of a root with columns and types of the whole table."""
    there = {column.source_name: column for column in own}
    found: list[Expression] = []
    texts: list[str] = []
    for column in wanted:
        mine = there.get(column.source_name)
        if mine is None:
            value = F.lit(None).cast(arrow_type(session, column.arrow))
        elif mine.arrow == column.arrow:
            value = F.col(tick(mine.name))
        elif pa.types.is_string(column.arrow):
            texts.append(column.source_name)
            # Use values from _pg_raw, except marks (masked, erased), which are no values.
            beside = F.try_element_at("_pg_raw", F.lit(column.source_name))
            held = text_of(session, mine.arrow)(F.col(tick(mine.name)))
            value = F.coalesce(held, F.when(~beside.startswith('{"$'), beside))
        else:
            value = F.col(tick(mine.name)).cast(arrow_type(session, column.arrow))
        found.append(value.alias(column.name))
    raw = F.map_filter("_pg_raw", lambda name, text: ~name.isin(texts) | text.startswith('{"$'))
    fields = [F.col(field.name) for field in CHANGE_FIELDS if field.name != "_pg_raw"]
    beside = raw.alias("_pg_raw") if texts else F.col("_pg_raw")
    return frame.select(*found, *fields, beside, PARTITION)
