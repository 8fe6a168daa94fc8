"""SQL behind a list of transactions: one statement for all incarnations, bounded in each."""

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from replview.store.read.history_places import (
    BLOCK,
    PLACED_TIME,
    IncarnationPlaces,
    next_block,
    scope,
)
from replview.store.read.rows import TRANSACTION_COLUMNS, TransactionRow
from replview.store.read.seen import learn_touched, transaction_of
from replview.store.read.session import ReadSession
from replview.store.read.transactions.conditions import ENDED_TIME, OPEN_TIME, Conditions
from replview.store.read.transactions.streams import (
    LONG_AGO,
    PlacedStream,
    SequenceRange,
    Stream,
    UnplacedStream,
)
from replview.store.read.transactions.transaction_filter import TransactionFilter, conditions_of

#: Candidate blocks that one statement returns at most.
_BLOCKS_LIMIT = 2000
_END_OF_TIME = dt.datetime(9000, 1, 1, tzinfo=dt.UTC)
_LAST_ID = (1 << 63) - 1

_INCARNATIONS = sql.SQL("""
    SELECT i.id, s.id, o.name || '/' || s.name, i.number, i.commit_seq, coalesce(m.rolled_seq, 0),
           ARRAY({blocks}),
           CASE WHEN {by_id} AND row_number() OVER (ORDER BY i.id DESC) = 1
                THEN ARRAY(SELECT t.id FROM transaction t WHERE t.gid = %(id)s OR t.xid = %(xid)s
                           ORDER BY t.id DESC LIMIT 10000) END,
           CASE WHEN %(tables_most)s > 0 AND i.id = s.incarnation_id
                THEN ARRAY(SELECT ARRAY[r.id::text, r.schema, r."table"] FROM relation r
                           WHERE r.slot_id = s.id
                           ORDER BY r.schema, r."table" LIMIT %(tables_most)s) END
    FROM slot_incarnation i JOIN slot s ON s.id = i.slot_id JOIN source o ON o.id = s.source_id
    LEFT JOIN activity_mark m ON m.incarnation_id = i.id
    LEFT JOIN unnest(%(cut_incarnations)s::bigint[], %(cuts)s::bigint[]) AS c (incarnation, cut)
           ON c.incarnation = i.id
    WHERE (%(slot)s = '' OR (o.name, s.name) = (%(source)s, %(name)s))
      AND (%(seen)s::bigint[] IS NULL OR s.source_id = ANY(%(seen)s))
    ORDER BY i.id DESC
""")
_BLOCKS = sql.SQL("""
    SELECT ARRAY[b.block, {number}] FROM history_block b
    WHERE b.incarnation_id = i.id AND {side} AND {conditions}
    ORDER BY b.block {direction} LIMIT %(blocks_limit)s
""")

_LATER_BLOCKS = sql.SQL("b.block >= c.cut / {block}")
_EARLIER_BLOCKS = sql.SQL("(c.cut IS NULL OR b.block <= c.cut / {block})")

_PLACED = sql.SQL("""
    (SELECT r.n, {time}, NULL::timestamptz, {columns}
    FROM unnest(%(incarnations)s::bigint[], %(lows)s::bigint[], %(highs)s::bigint[])
         WITH ORDINALITY AS r (incarnation, low, high, n)
    CROSS JOIN LATERAL (SELECT * FROM {rows} ORDER BY t.commit_seq {direction} LIMIT %(limit)s) t)
""")
_IN_RANGE = sql.SQL("""
    t.incarnation_id = r.incarnation AND t.commit_seq BETWEEN r.low AND r.high
    AND {conditions} ORDER BY t.commit_seq {direction} LIMIT %(limit)s
""")
# The states are literals, so that the planner can use the partial indexes.
_ENDED = sql.SQL("""
    (SELECT -r.n, {time}, t.stored_at, {columns}
    FROM unnest(
             %(ended_incarnations)s::bigint[], %(ended_at)s::timestamptz[], %(ended_ids)s::bigint[])
         WITH ORDINALITY AS r (incarnation, at, id, n)
    CROSS JOIN LATERAL (
        SELECT * FROM transaction t
        WHERE t.incarnation_id = r.incarnation AND t.state IN ('aborted', 'rolled back', 'unknown')
          AND t.commit_seq IS NULL AND t.stored_at {compare} r.at
          AND (t.stored_at, t.id) {strictly} (r.at, r.id) AND {conditions}
        ORDER BY t.stored_at {direction}, t.id {direction} LIMIT %(limit)s) t)
""")
# A streamed transaction in state "receiving" is being received again: until it is complete, its
# earlier row is shown.
_OPEN = sql.SQL("""
    (SELECT 0, m.at, m.at, {columns}
    FROM transaction t CROSS JOIN LATERAL (SELECT {time} AS at) m
    WHERE t.incarnation_id = ANY(%(open_incarnations)s)
      AND t.state IN ('receiving', 'streaming', 'prepared')
      AND NOT (t.state = 'receiving' AND t.streamed)
      AND (m.at, t.id) {strictly} (%(open_at)s::timestamptz, %(open_id)s) AND {conditions}
    ORDER BY m.at {direction}, t.id {direction} LIMIT %(limit)s)
""")
_TIME_AT = sql.SQL("""
    SELECT max(at) FROM unnest(%s::bigint[], %s::bigint[]) AS r (incarnation, seq)
    CROSS JOIN LATERAL (
        SELECT {time} AS at FROM transaction t
        WHERE t.incarnation_id = r.incarnation AND t.commit_seq >= r.seq
        ORDER BY t.commit_seq LIMIT 1) t
""").format(time=sql.SQL(PLACED_TIME))


@dataclass(slots=True)
class FoundIncarnation:
    """An incarnation with the blocks to read, in order, each with its expected rows, if known."""

    incarnation: IncarnationPlaces
    blocks: list[tuple[int, float | None]]


def time_at(session: ReadSession, places: Sequence[tuple[int, int]]) -> dt.datetime | None:
    """Return the latest time at these (incarnation, commit_seq)."""
    if not places:
        return None
    incarnations, seqs = zip(*places, strict=True)
    latest: dt.datetime | None = session.rows(_TIME_AT, [list(incarnations), list(seqs)])[0][0]
    return latest


class TransactionReader:
    """A reader of the transactions that match one filter, in one direction."""

    def __init__(
        self,
        session: ReadSession,
        filter_: TransactionFilter,
        *,
        backwards: bool,
        limit: int,
        tables_most: int = 0,
    ) -> None:
        self._session, self.wanted = session, filter_
        #: Tables of each listed slot, up to ``tables_most``: ``{relation id: (schema, table)}``.
        self.tables: dict[int, tuple[str, str]] = {}
        self._tables_most = tables_most
        self.backwards, self.limit = backwards, limit
        self.placed = conditions_of(session, filter_)
        self._ended = conditions_of(session, filter_, time=ENDED_TIME)
        self._open = conditions_of(session, filter_, time=OPEN_TIME)
        self._direction = sql.SQL("ASC" if backwards else "DESC")
        if self.placed.by_id:
            for conditions in (self.placed, self._ended, self._open):
                conditions.searches = False

    def incarnations(self, cuts: dict[int, int]) -> list[FoundIncarnation]:
        """Return the incarnations of the slot, newest first, each with its candidate blocks."""
        blocks: sql.Composable = sql.SQL("SELECT NULL::bigint[] WHERE false")
        if self.placed.searches:
            side = _LATER_BLOCKS if self.backwards else _EARLIER_BLOCKS
            blocks = _BLOCKS.format(
                side=side.format(block=BLOCK),
                number=self.placed.number_sql,
                conditions=self.placed.block_sql,
                direction=self._direction,
            )
        by_id = self.placed.by_id and "ids" not in self.placed.values
        params = {
            "id": None, "xid": None, **self.placed.values, "tables_most": self._tables_most,
            **scope(self._session, self.wanted.slot), "cut_incarnations": list(cuts),
            "cuts": list(cuts.values()), "blocks_limit": _BLOCKS_LIMIT,
        }  # fmt: skip
        query = _INCARNATIONS.format(blocks=blocks, by_id=by_id)
        rows = self._session.rows(query, params)
        for *_, tables in rows:
            self.tables |= {int(pk): (schema, table) for pk, schema, table in tables or ()}
        self._tables_most = 0
        # A gid or xid is resolved to its few transactions before any row is read.
        for conditions in (self.placed, self._ended, self._open) if by_id else ():
            conditions.rows.append(sql.SQL("t.id = ANY(%(ids)s)"))
            conditions.values["ids"] = rows[0][7] if rows else []
        return [
            FoundIncarnation(IncarnationPlaces(*row[:6]), [(int(b), n) for b, n in row[6]])
            for row in rows
        ]

    def set_blocks(self, stream: PlacedStream, candidate: FoundIncarnation) -> None:
        """Give a stream the blocks to read: its candidates, and all that are not in the sums."""
        if not self.placed.searches:
            return
        stream.searches = True
        first_unsummed = next_block(stream.incarnation.rolled_seq)
        first = max(first_unsummed, stream.low // BLOCK)
        unsummed = range(first, stream.high // BLOCK + 1) if stream.low <= stream.high else range(0)
        summed = [block for block, _ in candidate.blocks if block < first_unsummed]
        stream.expected = {block: float(n) for block, n in candidate.blocks if n is not None}
        stream.blocks_cut = len(candidate.blocks) >= _BLOCKS_LIMIT
        if not self.backwards:
            stream.blocks.extend([*reversed(unsummed), *summed])
        else:
            stream.blocks.extend(summed)
            if not stream.blocks_cut:
                stream.blocks.extend(unsummed)
        stream.settle()

    def _more_blocks(self, streams: Sequence[PlacedStream]) -> None:
        """Give the next candidate blocks to streams whose list of them was cut off."""
        by_id = {
            stream.incarnation.id: stream
            for stream in streams
            if stream.searches and not stream.blocks
        }
        if by_id:
            for candidate in self.incarnations(
                {key: stream.next_cut for key, stream in by_id.items()}
            ):
                if candidate.incarnation.id in by_id:
                    self.set_blocks(by_id[candidate.incarnation.id], candidate)

    def fill(self, streams: Sequence[Stream]) -> None:
        """Read rows for all streams that need some, by one statement."""
        placed_streams = [stream for stream in streams if isinstance(stream, PlacedStream)]
        unplaced = [stream for stream in streams if isinstance(stream, UnplacedStream)]
        ended_streams = [stream for stream in unplaced if stream.incarnation is not None]
        open_streams = [stream for stream in unplaced if stream.incarnation is None]
        self._more_blocks(placed_streams)
        # Aim at a little more than a page, as the expected numbers are rough.
        row_target = self.limit + self.limit // 2 + 5
        plans = [
            (placed_stream, ranges)
            for placed_stream in placed_streams
            if (ranges := placed_stream.next_ranges(row_target))
        ]
        parts: list[sql.Composed] = []
        params: dict[str, Any] = {"limit": self.limit + 1}
        if plans:
            parts.append(self._part(_PLACED, self.placed, params))
            params |= _range_values(plans)
        if ended_streams:
            parts.append(self._part(_ENDED, self._ended, params))
            positions = [stream.at or self._end for stream in ended_streams]
            params["ended_incarnations"] = [
                stream.incarnation.id for stream in ended_streams if stream.incarnation
            ]
            params["ended_at"] = [position[0] for position in positions]
            params["ended_ids"] = [position[1] for position in positions]
        if open_streams:
            parts.append(self._part(_OPEN, self._open, params))
            position = open_streams[0].at or self._end
            params |= {"open_at": position[0], "open_id": position[1]}
            params["open_incarnations"] = self.open_incarnations
        if not parts:
            return
        started = time.monotonic()
        rows = self._session.rows(sql.SQL(" UNION ALL ").join(parts), params)
        self._hand_out(rows, plans, ended_streams, open_streams)
        for placed_stream in placed_streams:
            placed_stream.pace(time.monotonic() - started)

    #: Incarnations whose open transactions are listed.
    open_incarnations: list[int]

    @property
    def _end(self) -> tuple[dt.datetime, int]:
        return (LONG_AGO, 0) if self.backwards else (_END_OF_TIME, _LAST_ID)

    def _part(self, part: sql.SQL, conditions: Conditions, values: dict[str, Any]) -> sql.Composed:
        values |= conditions.values
        return part.format(
            time=conditions.time, columns=sql.SQL(TRANSACTION_COLUMNS),
            conditions=conditions.row_sql,
            rows=conditions.first_rows(_IN_RANGE, direction=self._direction),
            direction=self._direction, compare=sql.SQL(">=" if self.backwards else "<="),
            strictly=sql.SQL(">=" if self.backwards else "<"),
        )  # fmt: skip

    def _hand_out(
        self,
        rows: list[tuple[Any, ...]],
        plans: list[tuple[PlacedStream, list[SequenceRange]]],
        ended_streams: list[UnplacedStream],
        open_streams: list[UnplacedStream],
    ) -> None:
        """Give each stream its rows in its order, which a UNION ALL does not promise."""
        by_number: dict[int, list[tuple[dt.datetime, dt.datetime, TransactionRow]]] = {}
        learn_touched(rows, self._session.visibility, before=3)
        for number, moment, mark, *values in rows:
            row = transaction_of(values, self._session.visibility)
            by_number.setdefault(number, []).append((moment, mark, row))
        number = 0
        for stream, ranges in plans:
            rows_of_ranges = []
            for _ in ranges:
                number += 1
                range_rows = [(moment, row) for moment, _, row in by_number.get(number, ())]
                range_rows.sort(
                    key=lambda pair: pair[1].commit_seq or 0, reverse=not self.backwards
                )
                rows_of_ranges.append(range_rows)
            stream.take(ranges, rows_of_ranges, self.limit + 1)
        unplaced = [(-key, stream) for key, stream in enumerate(ended_streams, start=1)]
        for key, unplaced_stream in (
            *unplaced,
            *((0, unplaced_stream) for unplaced_stream in open_streams),
        ):
            stream_rows = by_number.get(key, [])
            stream_rows.sort(key=lambda row: (row[1], row[2].id), reverse=not self.backwards)
            unplaced_stream.take(stream_rows, self.limit + 1)


def _range_values(plans: list[tuple[PlacedStream, list[SequenceRange]]]) -> dict[str, list[int]]:
    ranges = [
        (stream.incarnation.id, *bounds)
        for stream, stream_ranges in plans
        for bounds in stream_ranges
    ]
    columns = map(list, zip(*ranges, strict=True))
    return dict(zip(("incarnations", "lows", "highs"), columns, strict=True))
