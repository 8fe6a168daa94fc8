"""Read the transactions of a range in groups whose changes one COPY reads in order."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.reading.packed_values import (
    INT64,
    LSN,
    MOMENT,
    TEXT,
    Fields,
    packing,
    unpacked,
)
from replview.parquet.reading.places import PLACED_TIME, conditions
from replview.parquet.slices import LAST_SEQ, Slice, SliceRange
from replview.store.read.rows import actor_at

#: Transactions read by one query.
_PAGE = 20_000
#: The most of a group: transactions, their changes, and the changes' bytes in the stream. A
#: transaction that has more is a group of its own.
_GROUP = 5_000
GROUP_CHANGES = 32_768
_GROUP_BYTES = 16 * 1024 * 1024
#: Read transactions by a range of identifiers where at least one in four of the range is wanted.
SPARSE = 4
#: Where identifiers decrease more often than once in so many transactions, the server sorts.
_SHORT_RUN = 50

_FIELDS: Fields = {
    "id": INT64, "commit_seq": INT64, "commit_version": LSN, "commit_us": MOMENT, "xid": INT64,
    "actor": TEXT, "actors": TEXT, "changes": INT64, "bytes": INT64, "placed_us": MOMENT,
}  # fmt: skip
_QUERY = """
    SELECT {packing} FROM (
        SELECT t.id, t.commit_seq, t.commit_lsn AS commit_version, t.commit_time AS commit_us,
               t.xid, t.actor, t.actors::text,
               t.inserts + t.updates + t.deletes + t.truncates + t.messages AS changes,
               t.size_bytes AS bytes, {placed} AS placed_us
        FROM transaction t WHERE {where} AND {having} AND t.commit_seq > {after}
        ORDER BY t.commit_seq LIMIT {limit}
    ) AS packed
"""
_BETWEEN = """
    SELECT (SELECT count(*) FROM (SELECT FROM transaction
                                  WHERE id BETWEEN %(first)s AND %(last)s LIMIT %(most)s) AS t),
           EXISTS (SELECT FROM aborted_subtransaction
                   WHERE transaction_id BETWEEN %(first)s AND %(last)s)
"""

_ALL = sql.SQL("true")


@dataclass(frozen=True, slots=True)
class TransactionGroup:
    """Transactions whose changes are read together."""

    #: The transactions, with the columns of ``_FIELDS``, in the order of history.
    rows: pa.Table
    #: True when identifiers grow with commit_seq, so that ``change``'s key gives the order.
    ascending: bool
    #: The part of a transaction that a range begins or ends in: ``after < seq <= through``.
    after_seq: int
    through_seq: int
    #: How many transactions, of this group or not, have identifiers from its first to its last.
    #: None: too many, or the group's are not in that order.
    among: int | None = None
    #: True when a subtransaction of one of these transactions may have aborted.
    aborted: bool = True
    #: The actors whose changes are read (``Slice.whose``); empty: all changes.
    whose: tuple[str, ...] = ()

    @property
    def packs(self) -> bool:
        """Return whether the group is so small that the server can hold it as a whole."""
        rows = self.rows
        return bool(
            pc.sum(rows["bytes"]).as_py() <= _GROUP_BYTES
            and pc.sum(rows["changes"]).as_py() <= GROUP_CHANGES
        )

    @property
    def ids(self) -> list[int]:
        """Return the identifiers of the transactions, in the order of history."""
        found: list[int] = self.rows["id"].to_pylist()
        return found


def groups(
    connection: StoreConnection,
    part: Slice,
    within: SliceRange,
    relation_ids: Sequence[int] | None,
    having: sql.Composable = _ALL,
) -> Iterator[TransactionGroup]:
    """Yield the range's transactions that meet ``having``, in groups, in the order of history."""
    after = -1
    while True:
        page = _page(connection, conditions(part, within, relation_ids), having, after)
        for group in _of_page(page, within):
            several = group.rows["actors"].null_count < group.rows.num_rows
            yield replace(_looked_at(connection, group), whose=part.whose if several else ())
        if page.num_rows < _PAGE:
            return
        after = page["commit_seq"][-1].as_py()


def _page(
    connection: StoreConnection, where: sql.Composable, having: sql.Composable, after: int
) -> pa.Table:
    query = sql.SQL(_QUERY).format(
        packing=packing(_FIELDS), where=where, having=having, after=after, limit=_PAGE,
        placed=PLACED_TIME,
    )  # fmt: skip
    [(rows, *values)] = connection.execute(query, binary=True).fetchall()
    return pa.table(unpacked(values, _FIELDS, rows))


def _looked_at(connection: StoreConnection, group: TransactionGroup) -> TransactionGroup:
    ends = pc.min_max(group.rows["id"])
    most = group.rows.num_rows * SPARSE
    asked = {"first": ends["min"].as_py(), "last": ends["max"].as_py(), "most": most + 1}
    [(count, aborted)] = connection.execute(_BETWEEN, asked).fetchall()
    among = count if group.ascending and count <= most else None
    return replace(group, among=among, aborted=aborted)


def placed(batch: pa.RecordBatch, group: TransactionGroup) -> tuple[pa.RecordBatch, Any]:
    """Return the changes of the group's transactions, and the index of each one's transaction.

    Changes of transactions that came between them after they were counted are left out.
    """
    of = pc.index_in(batch.column("id"), value_set=group.rows["id"].combine_chunks())
    if of.null_count:
        batch, of = batch.filter(of.is_valid()), of.drop_null()
    return batch, of


def days_of(of: pa.Array, group: TransactionGroup) -> pa.Array:
    """Return the days of the changes that ``placed`` gave, as ``places.PLACED_DAY`` has them."""
    times = group.rows["placed_us"].combine_chunks().cast(pa.timestamp("us", "UTC"))
    return times.cast(pa.date32()).take(of)


def actors_of(batch: pa.RecordBatch, of: pa.Array, group: TransactionGroup) -> pa.Array:
    """Return the actors of the changes that ``placed`` gave."""
    actor, several = (group.rows[name].combine_chunks() for name in ("actor", "actors"))
    if several.null_count == len(several):
        return actor.take(of)
    parts = {place: orjson.loads(text) for place, text in enumerate(several.to_pylist()) if text}
    found, places, seqs = (each.to_pylist() for each in (actor.take(of), of, batch["seq"]))
    for change, place in enumerate(places):
        if place in parts:
            found[change] = actor_at(parts[place], seqs[change])
    return pa.array(found, pa.string())


def _of_page(page: pa.Table, within: SliceRange) -> Iterator[TransactionGroup]:
    if not page.num_rows:
        return
    page = page.combine_chunks()
    seqs = page["commit_seq"]
    start, end = 0, page.num_rows
    if within.after[1] < LAST_SEQ and seqs[0].as_py() == within.after[0]:
        last = within.through[1] if within.through[0] == within.after[0] else LAST_SEQ
        yield _group(page.slice(0, 1), within.after[1], last)
        start = 1
    tail = (
        end > start and within.through[1] < LAST_SEQ and seqs[end - 1].as_py() == within.through[0]
    )
    yield from _runs(page.slice(start, end - start - int(tail)))
    if tail:
        yield _group(page.slice(end - 1, 1), 0, within.through[1])


def _runs(page: pa.Table) -> Iterator[TransactionGroup]:
    """Cut where identifiers decrease, unless that is often (streamed, two-phase transactions)."""
    if not page.num_rows:
        return
    ids = page["id"].combine_chunks()
    falls = pc.less(ids.slice(1), ids.slice(0, len(ids) - 1))
    places = [n + 1 for n in pc.indices_nonzero(falls).to_pylist()]
    if len(places) * _SHORT_RUN > len(ids):
        places = []
    for start, end in zip([0, *places], [*places, len(ids)], strict=True):
        for begin, stop in _cut(page.slice(start, end - start)):
            yield _group(page.slice(start + begin, stop - begin), 0, LAST_SEQ)


def _cut(rows: pa.Table) -> Iterator[tuple[int, int]]:
    """Yield where groups begin and end."""
    begin, end = 0, rows.num_rows
    # Running totals of the transactions before each place.
    changes, sizes = (_sums(rows[name]) for name in ("changes", "bytes"))
    while begin < end:
        stop = min(
            begin + _GROUP,
            bisect_right(changes, changes[begin] + GROUP_CHANGES) - 1,
            bisect_right(sizes, sizes[begin] + _GROUP_BYTES) - 1,
        )
        yield begin, max(stop, begin + 1)
        begin = max(stop, begin + 1)


def _sums(counts: pa.ChunkedArray) -> memoryview:
    sums = pc.cumulative_sum(pa.chunked_array([pa.array([0], pa.int64()), *counts.chunks]))
    return memoryview(sums.combine_chunks().buffers()[1]).cast("B").cast("q")


def _group(rows: pa.Table, after_seq: int, through_seq: int) -> TransactionGroup:
    rows = rows.combine_chunks()
    ids = rows["id"]
    rising = len(ids) < 2 or pc.all(pc.greater(ids.slice(1), ids.slice(0, len(ids) - 1))).as_py()
    return TransactionGroup(rows, bool(rising), after_seq, through_seq)
