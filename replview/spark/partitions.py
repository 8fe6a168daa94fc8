"""What one task of Spark reads: a range of a slice, with all it takes to read it anywhere."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from replview.parquet.reading import connect, cut, read_typed, read_untyped
from replview.parquet.reading.connecting import Connection
from replview.parquet.slices import Range, Slice, SliceTable
from replview.spark.options import Options


@dataclass
class StorePartition(InputPartition):
    """Knows no address of the store: a plan may show it."""

    part: Slice
    table: SliceTable | None
    within: Range


def planned(
    connection: Connection, part: Slice, table: SliceTable | None, options: Options
) -> list[StorePartition]:
    """Partitions of even numbers of changes, none empty."""
    ranges = cut(
        connection,
        part,
        table,
        parts=options.partitions,
        rows_per_part=None if options.partitions else options.rows_per_partition,
    )
    return [StorePartition(part, table, within) for within in ranges]


def read_partition(
    partition: InputPartition, dsn: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Its rows, in the schema that Spark's plan has."""
    if not isinstance(partition, StorePartition):
        # There was nothing to read: Spark makes a partition of its own.
        return
    with connect(dsn) as connection:
        batches = (
            read_untyped(connection, partition.part, partition.within)
            if partition.table is None
            else read_typed(connection, partition.part, partition.table, partition.within)
        )
        for batch in batches:
            yield _as_planned(batch, schema)


def _as_planned(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns: Spark names the insides of lists and maps otherwise."""
    arrays = [
        column if column.type.equals(item.type) else column.cast(item.type)
        for column, item in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
