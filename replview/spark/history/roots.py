"""The roots of one table's dataset, read as one.

A table whose column became another kind of type stands in several folders (``writing.layout``),
each with a schema of its own. Together a column has the type that holds all its values: as within
one slice that is text, the server's, where nothing else does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from replview.parquet.pg_values import pg_text
from replview.parquet.slice_schemas import CHANGE_FIELDS, Column
from replview.parquet.slices import SliceTable, TableVersion
from replview.parquet.writing import layout
from replview.parquet.writing.targets import Target
from replview.spark.quoting import tick
from replview.spark.sessions import SparkProblem

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class DatasetRoot:
    """One folder of a table's changes."""

    target: Target
    #: Seen from the target's.
    folder: str

    @cached_property
    def relation(self) -> SliceTable:
        """The table, with all shapes that the changes here were made under."""
        path = f"{self.folder}/{layout.SCHEMA}"
        data = self.target.read_bytes(path)
        if data is None:
            raise SparkProblem(
                f"{path} is missing", "export the slice again: its files say nothing without it"
            )
        document = orjson.loads(data)
        table = document["table"]
        versions = tuple(
            TableVersion(
                id=0,  # of no store: files are read, not changes
                number=each["number"],
                columns=tuple(each["columns"]),
                key_columns=tuple(each["key_columns"]),
                replica_identity=each["replica_identity"],
            )
            for each in document["versions"]
        )
        return SliceTable(
            relation_id=0,
            oid=table["oid"],
            schema=table["schema"],
            table=table["name"],
            versions=versions,
        )

    def frame(self, spark: "SparkSession", url: str) -> "DataFrame":
        """Its rows; ``url`` is its address as Spark spells it."""
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(self.relation.arrow_schema()).add("commit_date", "date")
        return spark.read.schema(schema).parquet(url)


def merged(tables: Sequence[SliceTable]) -> SliceTable:
    """A table by what its roots tell, in their order: as the last names it, with every shape."""
    shapes: list[TableVersion] = []
    made_anew = False
    for before, table in zip((None, *tables), tables, strict=False):
        if before is not None and before.oid != table.oid:
            made_anew = True
        known = {shape.number: shape for shape in shapes}
        shapes += [one for one in table.versions if known.get(one.number) != one]
    if not made_anew:
        shapes.sort(key=lambda shape: shape.number)
    last = tables[-1]
    return SliceTable(relation_id=0, oid=last.oid, schema=last.schema, table=last.table,
                      versions=tuple(shapes))  # fmt: skip


def as_one(frame: "DataFrame", own: Sequence[Column], wanted: Sequence[Column]) -> "DataFrame":
    """The rows of a root with the columns, and their types, of the whole table."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_type

    there = {column.source_name: column for column in own}
    found: list[Expression] = []
    texts: list[str] = []
    for column in wanted:
        mine = there.get(column.source_name)
        if mine is None:
            value = F.lit(None).cast(from_arrow_type(column.arrow))
        elif mine.arrow == column.arrow:
            value = F.col(tick(mine.name))
        elif pa.types.is_string(column.arrow):
            texts.append(column.source_name)
            beside = F.try_element_at("_pg_raw", F.lit(column.source_name))
            value = F.coalesce(_text_of(mine.arrow)(F.col(tick(mine.name))), _no_mark(beside))
        else:
            value = F.col(tick(mine.name)).cast(from_arrow_type(column.arrow))
        found.append(value.alias(column.name))
    raw = F.map_filter("_pg_raw", lambda name, text: ~name.isin(texts) | text.startswith('{"$'))
    fields = [F.col(field.name) for field in CHANGE_FIELDS if field.name != "_pg_raw"]
    beside = raw.alias("_pg_raw") if texts else F.col("_pg_raw")
    return frame.select(*found, *fields, beside, "commit_date")


def _no_mark(text: "Expression") -> "Expression":
    """What a column could not hold; a mark (masked, erased) is no value."""
    from pyspark.sql import functions as F

    return F.when(~text.startswith('{"$'), text)


def _text_of(kind: pa.DataType) -> Callable[[Any], "Expression"]:
    """Values in the server's text."""
    from pyspark.sql.pandas.functions import arrow_udf

    # What kind of function it is, Spark works out from these types.
    def texts(values: pa.Array) -> pa.Array:
        found = [pg_text(value, kind) for value in values.to_pylist()]
        return pa.array(found, pa.string())

    make: Any = arrow_udf
    made: Callable[[Any], Expression] = make(texts, "string")
    return made
