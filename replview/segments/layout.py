"""The layout of a segment: a Parquet file with changes of one incarnation of a slot.

The columns are those of ``change``, and ``commit_seq``. Images stay JSON text with the server's
exact values, so that the layout is the same for every table and every version of it.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

#: Version of the layout, in the file's metadata. A reader refuses a later one.
VERSION = 1
#: Rows of a row group: the least that a reader decompresses.
GROUP_ROWS = 4096
#: Bytes of images in a row group, on average, from which it has fewer rows.
GROUP_BYTES = 16 * 1024 * 1024

SCHEMA = pa.schema(
    [
        #: Place in history; null in a transaction that has none (it was aborted).
        pa.field("commit_seq", pa.int64()),
        pa.field("transaction_id", pa.int64(), nullable=False),
        pa.field("seq", pa.int32(), nullable=False),
        pa.field("lsn", pa.uint64(), nullable=False),
        pa.field("subxid", pa.int64()),
        pa.field("relation_id", pa.int64()),
        pa.field("version_id", pa.int64()),
        pa.field("op", pa.string(), nullable=False),
        pa.field("old_kind", pa.string()),
        #: Signed, as in the store.
        pa.field("key_hash", pa.int64()),
        pa.field("old_key_hash", pa.int64()),
        pa.field("old", pa.string()),
        pa.field("new", pa.string()),
    ]
)
#: The columns with JSON text.
IMAGES = ("old", "new")


class SegmentChange(NamedTuple):
    """One change in a segment; ``store.models.Change`` describes the columns."""

    commit_seq: int | None
    transaction_id: int
    seq: int
    lsn: int
    subxid: int | None
    relation_id: int | None
    version_id: int | None
    op: str
    old_kind: str | None
    key_hash: int | None
    old_key_hash: int | None
    old: str | None
    new: str | None


def table_of(changes: Iterable[SegmentChange]) -> pa.Table:
    """Return changes as a table with the columns of a segment."""
    columns = list(zip(*changes, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def changes_of(table: pa.Table) -> Iterator[SegmentChange]:
    """Yield the changes of a table, in its order."""
    return map(SegmentChange, *(table.column(name).to_pylist() for name in SCHEMA.names))
