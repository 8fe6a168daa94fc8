"""Write rows to one Parquet file, in row groups whose boundaries depend on the rows alone.

Row groups end after so many rows, or sooner where rows are wide, so that a reader of a range of
LSNs can skip whole groups. The boundaries of the batches that are read do not show in the file.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replview.parquet.writing.filesystems import Sink
from replview.parquet.writing.targets import Target
from replview.runtime.failpoints import Point, failpoint

GROUP_ROWS = 131_072
GROUP_BYTES = 64 * 1024 * 1024


def write_file(target: Target, path: str, schema: pa.Schema, groups: Iterable[pa.Table]) -> Sink:
    """Write one file; the sink knows its bytes and checksum.

    Raises ``TargetProblem`` and whatever ``groups`` raises; then there is no file.
    """
    # A dictionary pays for texts, which repeat. Numbers and times mostly ascend, and are smaller
    # and faster to write without one.
    texts = [each.name for each in schema if pa.types.is_string(each.type) and each.name != "_lsn"]
    with target.create(path) as sink:
        writer = pq.ParquetWriter(sink, schema, compression="zstd", version="2.6",
                                  data_page_version="1.0", use_dictionary=texts)  # fmt: skip
        try:
            for group in groups:
                writer.write_table(group, row_group_size=max(group.num_rows, 1))
                failpoint(Point.IN_EXPORT_FILE)
        except BaseException:
            sink.abandon()
            raise
        finally:
            # An abandoned sink swallows the footer.
            writer.close()
    return sink


def row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the batches as row groups, each in one piece."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        sizes, begin, before = _sizes(batch), 0, 0
        while begin < batch.num_rows:
            full = bisect_left(
                range(batch.num_rows), GROUP_BYTES - size + before, key=lambda n: sizes[n].as_py()
            )
            end = min(begin + GROUP_ROWS - rows, full + 1, batch.num_rows)
            waiting.append(batch.slice(begin, end - begin))
            rows, size = rows + end - begin, size + sizes[end - 1].as_py() - before
            begin, before = end, sizes[end - 1].as_py()
            if rows >= GROUP_ROWS or size >= GROUP_BYTES:
                yield pa.Table.from_batches(waiting, schema).combine_chunks()
                waiting, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(waiting, schema).combine_chunks()


def _sizes(batch: pa.RecordBatch) -> pa.Array:
    """Return the running total of the values' bytes up to each row.

    Other bytes of a batch are not counted, since they depend on how it was made.
    """
    return pc.cumulative_sum(_added(batch.columns, batch.num_rows))


def _added(columns: Iterable[pa.Array], rows: int) -> pa.Array:
    return reduce(pc.add, map(_bytes, columns), pa.repeat(pa.scalar(0, pa.int64()), rows))


def _bytes(column: pa.Array) -> pa.Array | pa.Scalar:
    """Return the bytes of each value; for a list or map, the bytes of its elements."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pc.add(pc.fill_null(pc.binary_length(column), 0).cast(pa.int64()), 4)
    if not (pa.types.is_list(kind) or pa.types.is_map(kind)):
        return pa.scalar(-(-kind.bit_width // 8), pa.int64())
    inner = [column.keys, column.items] if pa.types.is_map(kind) else [column.values]
    if not len(inner[0]):
        return pa.scalar(4, pa.int64())
    sums = pc.cumulative_sum(_added(inner, len(inner[0])))
    ends = pa.concat_arrays([pa.array([0], pa.int64()), sums]).take(column.offsets)
    return pc.add(pc.subtract(ends[1:], ends[:-1]), 4)
