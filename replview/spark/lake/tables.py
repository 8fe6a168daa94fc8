"""The two tables of a lake for one relation of one slot: ``changes`` and ``current``."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from replview.parquet.slice_schemas import widened
from replview.parquet.slices import SliceTable
from replview.parquet.writing.layout import encoded
from replview.spark.lake.formats import LakeFormat
from replview.spark.pyspark_versions import arrow_schema
from replview.spark.quoting import spark_literal, tick
from replview.spark.stream_offsets import Offset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGES, CURRENT = "changes", "current"
PARTITION = {CHANGES: "commit_date", CURRENT: "_bucket"}
#: Parts that ``current`` is divided into by its key.
BUCKETS = 16
#: Property of ``current``: the table, version and key that its rows have.
_SHAPE = "replview.shape"
_TEXTS = MapType(StringType(), StringType())
_OF_CURRENT = StructType(
    [
        StructField("_pg_raw", _TEXTS),
        StructField("_unknown", ArrayType(StringType())),
        StructField("_incarnation", IntegerType()),
        StructField("_commit_version", LongType()),
        StructField("_commit_seq", LongType()),
        StructField("_seq", IntegerType()),
        StructField("_relation_version", IntegerType()),
        StructField("_bucket", IntegerType()),
    ]
)


@dataclass(frozen=True)
class LakeTable:
    """The tables of one relation, and the session that reads and writes them."""

    spark: "SparkSession" = field(repr=False)
    format: LakeFormat
    root: str
    source: str
    slot: str
    #: ``schema.table``.
    relation: str

    def name(self, kind: str) -> str:
        """Return the name of ``changes`` or ``current`` in SQL."""
        parts = (self.source, self.slot, self.relation)
        return self.format.table(self.root, [*map(encoded, parts), kind])

    def frame(self, kind: str) -> "DataFrame":
        """Return the rows of one of the tables."""
        return self.spark.table(self.name(kind))

    def reached(self, kind: str) -> Offset:
        """Return how far one of the tables has read the slot."""
        return self.format.reached(self.spark, self.name(kind))

    def size(self, kind: str) -> dict[str, int]:
        """Return the ``rows``, ``files`` and ``bytes`` that one of the tables has now."""
        return self.format.size(self.spark, self.name(kind))

    @contextmanager
    def reaching(self, offset: Offset, incarnation: int) -> Iterator[None]:
        """Record ``offset`` with each commit."""
        with self.format.reaching(self.spark, offset, incarnation):
            yield

    def prepare(self, table: SliceTable) -> None:
        """Create the tables, or give them the columns and types that ``table`` has by now."""
        rows = from_arrow_schema(table.arrow_schema().remove_metadata(), prefer_timestamp_ntz=True)
        added = [
            StructField(PARTITION[CHANGES], DateType()),
            StructField("_incarnation", IntegerType()),
            StructField("_relation_oid", LongType()),
        ]
        names = [column.name for column in table.columns]
        current = [each for each in rows if each.name in names]
        self._make(CHANGES, StructType([*rows, *added]))
        self._make(CURRENT, StructType([*current, *_OF_CURRENT]))

    def _make(self, kind: str, wanted: StructType) -> None:
        name, partition = self.name(kind), PARTITION[kind]
        self.format.prepare(self.spark, name)
        properties = self.format.properties
        pairs = (f"{spark_literal(key)} = {spark_literal(properties[key])}" for key in properties)
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {name} ({_columns(wanted)}) USING {self.format.name} "
            f"PARTITIONED BY ({partition}) TBLPROPERTIES ({', '.join(pairs)})"
        )
        there = {each.name: each for each in self.frame(kind).schema}
        added = StructType([each for each in wanted if each.name not in there])
        if added.fields:
            self.spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({_columns(added)})")
        types = {
            each.name: _widened(there[each.name].dataType, each.dataType)
            for each in wanted
            if each.name in there
        }
        if any(types[each] != there[each].dataType for each in types):
            self._retype(kind, types)

    def _retype(self, kind: str, types: Mapping[str, Any]) -> None:
        """Write a table again with the types that hold the values of all its versions."""
        frame = self.frame(kind)
        columns = [
            frame[tick(each)].cast(types[each]).alias(each) if each in types else frame[tick(each)]
            for each in frame.columns
        ]
        writer = frame.select(*columns).writeTo(self.name(kind)).using(self.format.name)
        for key, value in {**self.format.properties, **self._noted(kind)}.items():
            writer = writer.tableProperty(key, value)
        writer.partitionedBy(frame[PARTITION[kind]]).createOrReplace()

    def _noted(self, kind: str) -> dict[str, str]:
        """Return our own properties of a table."""
        rows = self.spark.sql(f"SHOW TBLPROPERTIES {self.name(kind)}").collect()
        return {row[0]: row[1] for row in rows if row[0].startswith("replview.")}

    def append(self, rows: "DataFrame", oid: int, offset: Offset, incarnation: int) -> None:
        """Append a table's rows to ``changes``, which has then read up to ``offset``."""
        there = self.frame(CHANGES).schema
        values = {name: rows[tick(name)] for name in rows.columns}
        values |= {"_incarnation": F.lit(incarnation), "_relation_oid": F.lit(oid)}
        columns = [
            values[each.name].cast(each.dataType).alias(each.name)
            for each in there
            if each.name in values
        ]
        with self.format.reaching(rows.sparkSession, offset, incarnation):
            writer = rows.select(*columns).writeTo(self.name(CHANGES))
            writer.options(**self.format.append_options).append()

    @property
    def shape(self) -> dict[str, Any]:
        """Return the ``oid``, ``version`` and ``key`` that the rows of ``current`` have."""
        return dict(orjson.loads(self._noted(CURRENT).get(_SHAPE, "{}")))

    def set_shape(self, shape: Mapping[str, Any]) -> None:
        """Note what ``shape`` returns from now on."""
        value = spark_literal(orjson.dumps(shape).decode())
        self.spark.sql(f"ALTER TABLE {self.name(CURRENT)} SET TBLPROPERTIES ('{_SHAPE}' = {value})")


def bucket_of(key: Sequence[str]) -> str:
    """Return the SQL of the part of ``current`` that a key belongs to."""
    values = ", ".join(f"CAST({tick(name)} AS STRING)" for name in key)
    return f"CAST(pmod(xxhash64({values}), {BUCKETS}) AS INT)"


def _columns(schema: StructType) -> str:
    return ", ".join(f"{tick(each.name)} {each.dataType.simpleString()}" for each in schema)


def _widened(there: Any, wanted: Any) -> Any:
    """Return a type that holds the values of both."""
    if there == wanted or isinstance(there, MapType):
        return there
    both = arrow_schema(
        StructType([StructField(f"{n}", each) for n, each in enumerate((there, wanted))])
    )
    return from_arrow_type(widened(both.types), prefer_timestamp_ntz=True)
