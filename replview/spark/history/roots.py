"""A folder of a table's changes: its rows as one frame, and those of several as one table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from replview.parquet.slice_schemas import CHANGE_FIELDS, PARTITION, Column
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

# A table whose column became another kind of type stands in several folders (``writing.layout``),
# each with a schema of its own. Together a column has the type that holds all its values: as within
# one slice that is text, the server's, where nothing else does.


@dataclass(frozen=True)
class DatasetRoot:
    target: Target
    #: Seen from the target's.
    folder: str
    #: The table's; 0: the source told none.
    oid: int
    #: Of its files those with the table's changes, seen from the target's; empty: nothing tells.
    #: A table that was made anew under the name may have its files in the same folder, and files
    #: that are being compacted stand there twice for a moment.
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
        """The table, with all shapes that the changes here were made under."""
        document = self._document
        table, versions = document["table"], map(TableVersion.from_json, document["versions"])
        return SliceTable(relation_id=0, oid=self.oid, schema=table["schema"],
                          table=table["name"], versions=tuple(versions))  # fmt: skip

    @property
    def parquet(self) -> ParquetFiles:
        """The table's rows."""
        return ParquetFiles(self.target, self.folder, self.relation.arrow_schema(), self.files)


def merged(tables: Sequence[SliceTable], name: str) -> SliceTable:
    """A table by what its roots tell, in their order, with every shape; as it is called last."""
    shapes: list[TableVersion] = []
    for table in tables:
        known = {shape.number: shape for shape in shapes}
        shapes += [one for one in table.versions if known.get(one.number) != one]
    shapes.sort(key=lambda shape: shape.number)
    last = next((each for each in reversed(tables) if each.name == name), tables[-1])
    return replace(last, versions=tuple(shapes))


def as_one(
    session: Session, frame: DataFrame, own: Sequence[Column], wanted: Sequence[Column]
) -> DataFrame:
    """The rows of a root with the columns, and their types, of the whole table."""
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
            # What its column could not hold; a mark (masked, erased) is no value.
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
