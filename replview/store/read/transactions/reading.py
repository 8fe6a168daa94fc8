"""SQL behind a list of transactions: one statement for all incarnations, bounded in each."""

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
from replview.store.read.transactions.conditions import (
    ENDED_TIME,
    OPEN_TIME,
    Conditions,
    conditions_of,
)
from replview.store.read.transactions.streams import (
    LONG_AGO,
    PlacedStream,
    SequenceRange,
    Stream,
    UnplacedStream,
)
from replview.store.read.transactions.transaction_filter import TransactionFilter

#: Candidate blocks that one statement returns at most.
_BLOCKS_LIMIT = 2000
_END_OF_TIME = dt.datetime(9000, 1, 1, tzinfo=dt.UTC)
_LAST_ID = (1 << 63) - 1

_INCARNATIONS = """
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
"""
_BLOCKS = """
    SELECT ARRAY[b.block, {number}] FROM history_block b
    WHERE b.incarnation_id = i.id AND {side} AND {conditions}
    ORDER BY b.block {direction} LIMIT %(blocks_limit)s
"""

_PLACED = """
    SELECT r.n, {time}, NULL::timestamptz, {columns}
    FROM unnest(%(incarnations)s::bigint[], %(lows)s::bigint[], %(highs)s::bigint[])
         WITH ORDINALITY AS r (incarnation, low, high, n)
    CROSS JOIN LATERAL (SELECT * FROM {rows} ORDER BY t.commit_seq {direction} LIMIT %(limit)s) t
"""
_IN_RANGE = """
    t.incarnation_id = r.incarnation AND t.commit_seq BETWEEN r.low AND r.high
    AND {conditions} ORDER BY t.commit_seq {direction} LIMIT %(limit)s
"""
# The states are literals, so that the planner can use the partial indexes.
_ENDED = """
    SELECT -r.n, {time}, t.stored_at, {columns}
    FROM unnest(
             %(ended_incarnations)s::bigint[], %(ended_at)s::timestamptz[], %(ended_ids)s::bigint[])
         WITH ORDINALITY AS r (incarnation, at, id, n)
    CROSS JOIN LATERAL (
        SELECT * FROM transaction t
        WHERE t.incarnation_id = r.incarnation AND t.state IN ('aborted', 'rolled back', 'unknown')
          AND t.commit_seq IS NULL AND t.stored_at {compare} r.at
          AND (t.stored_at, t.id) {strictly} (r.at, r.id) AND {conditions}
        ORDER BY t.stored_at {direction}, t.id {direction} LIMIT %(limit)s) t
"""
# A streamed transaction in state "receiving" is being received again: until it is complete, its
# earlier row is shown.
_OPEN = """
    SELECT 0, m.at, m.at, {columns}
    FROM transaction t CROSS JOIN LATERAL (SELECT {time} AS at) m
    WHERE t.incarnation_id = ANY(%(open_incarnations)s)
      AND t.state IN ('receiving', 'streaming', 'prepared')
      AND NOT (t.state = 'receiving' AND t.streamed)
      AND (m.at, t.id) {strictly} (%(open_at)s::timestamptz, %(open_id)s) AND {conditions}
    ORDER BY m.at {direction}, t.id {direction} LIMIT %(limit)s
"""
_TIME_AT = f"""
    SELECT max(at) FROM unnest(%s::bigint[], %s::bigint[]) AS r (incarnation, seq)
    CROSS JOIN LATERAL (
        SELECT {PLACED_TIME} AS at FROM transaction t
        WHERE t.incarnation_id = r.incarnation AND t.commit_seq >= r.seq
        ORDER BY t.commit_seq LIMIT 1) t
"""  # noqa: S608 (of constants)


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
    at: dt.datetime | None = session.rows(_TIME_AT, [list(incarnations), list(seqs)])[0][0]
    return at


class TransactionReader:
    """A reader of the transactions that match one filter, in one direction."""

    def __init__(
        self,
        session: ReadSession,
        wanted: TransactionFilter,
        *,
        backwards: bool,
        limit: int,
        tables_most: int = 0,
    ) -> None:
        self._session, self.wanted = session, wanted
        #: Tables of each listed slot, up to ``tables_most``: ``{relation id: (schema, table)}``.
        self.tables: dict[int, tuple[str, str]] = {}
        self._tables_most = tables_most
        self.backwards, self.limit = backwards, limit
        self.placed = conditions_of(session, wanted)
        self._ended = conditions_of(session, wanted, time=ENDED_TIME)
        self._open = conditions_of(session, wanted, time=OPEN_TIME)
        self._direction = "ASC" if backwards else "DESC"
        if self.placed.by_id:
            for conditions in (self.placed, self._ended, self._open):
                conditions.searches = False

    def incarnations(self, cuts: dict[int, int]) -> list[FoundIncarnation]:
        """Return the incarnations of the slot, newest first, each with its candidate blocks."""
        blocks = "SELECT NULL::bigint[] WHERE false"
        if self.placed.searches:
            cut = f"c.cut / {BLOCK}"
            side = f"b.block >= {cut}" if self.backwards else f"(c.cut IS NULL OR b.block <= {cut})"
            blocks = _BLOCKS.format(
                side=side, number=self.placed.number_sql, conditions=self.placed.block_sql,
                direction=self._direction,
            )  # fmt: skip
        by_id = self.placed.by_id and "ids" not in self.placed.values
        values = {
            "id": None, "xid": None, **self.placed.values, "tables_most": self._tables_most,
            **scope(self._session, self.wanted.slot), "cut_incarnations": list(cuts),
            "cuts": list(cuts.values()), "blocks_limit": _BLOCKS_LIMIT,
        }  # fmt: skip
        sql = _INCARNATIONS.format(blocks=blocks, by_id=str(by_id).lower())
        rows = self._session.rows(sql, values)
        for *_, tables in rows:
            self.tables |= {int(pk): (schema, table) for pk, schema, table in tables or ()}
        self._tables_most = 0
        # A gid or xid is resolved to its few transactions before any row is read.
        for conditions in (self.placed, self._ended, self._open) if by_id else ():
            conditions.rows.append("t.id = ANY(%(ids)s)")
            conditions.values["ids"] = rows[0][7] if rows else []
        return [
            FoundIncarnation(IncarnationPlaces(*row[:6]), [(int(b), n) for b, n in row[6]])
            for row in rows
        ]

    def set_blocks(self, stream: PlacedStream, found: FoundIncarnation) -> None:
        """Give a stream the blocks to read: its candidates, and all that are not in the sums."""
        if not self.placed.searches:
            return
        stream.searches = True
        loose_first = next_block(stream.incarnation.rolled_seq)
        first = max(loose_first, stream.low // BLOCK)
        loose = range(first, stream.high // BLOCK + 1) if stream.low <= stream.high else range(0)
        summed = [block for block, _ in found.blocks if block < loose_first]
        stream.expected = {block: float(n) for block, n in found.blocks if n is not None}
        stream.blocks_cut = len(found.blocks) >= _BLOCKS_LIMIT
        if not self.backwards:
            stream.blocks.extend([*reversed(loose), *summed])
        else:
            stream.blocks.extend(summed)
            if not stream.blocks_cut:
                stream.blocks.extend(loose)
        stream.settle()

    def _more_blocks(self, streams: Sequence[PlacedStream]) -> None:
        """Give the next candidate blocks to streams whose list of them was cut off."""
        spent = {one.incarnation.id: one for one in streams if one.searches and not one.blocks}
        if spent:
            for found in self.incarnations({key: one.next_cut for key, one in spent.items()}):
                if found.incarnation.id in spent:
                    self.set_blocks(spent[found.incarnation.id], found)

    def fill(self, streams: Sequence[Stream]) -> None:
        """Read rows for all streams that need some, by one statement."""
        placed = [one for one in streams if isinstance(one, PlacedStream)]
        unplaced = [one for one in streams if isinstance(one, UnplacedStream)]
        ended = [one for one in unplaced if one.incarnation is not None]
        opened = [one for one in unplaced if one.incarnation is None]
        self._more_blocks(placed)
        # Aim at a little more than a page, as the expected numbers are rough.
        wanted = self.limit + self.limit // 2 + 5
        plans = [(stream, ranges) for stream in placed if (ranges := stream.next_ranges(wanted))]
        parts: list[str] = []
        values: dict[str, Any] = {"limit": self.limit + 1}
        if plans:
            parts.append(self._part(_PLACED, self.placed, PLACED_TIME, values))
            values |= _range_values(plans)
        if ended:
            parts.append(self._part(_ENDED, self._ended, ENDED_TIME, values))
            places = [one.at or self._end for one in ended]
            values["ended_incarnations"] = [one.incarnation.id for one in ended if one.incarnation]
            values["ended_at"] = [place[0] for place in places]
            values["ended_ids"] = [place[1] for place in places]
        if opened:
            parts.append(self._part(_OPEN, self._open, OPEN_TIME, values))
            place = opened[0].at or self._end
            values |= {"open_at": place[0], "open_id": place[1]}
            values["open_incarnations"] = self.open_incarnations
        if not parts:
            return
        started = time.monotonic()
        found = self._session.rows(" UNION ALL ".join(f"({part})" for part in parts), values)
        self._hand_out(found, plans, ended, opened)
        for stream in placed:
            stream.pace(time.monotonic() - started)

    #: Incarnations whose open transactions are listed.
    open_incarnations: list[int]

    @property
    def _end(self) -> tuple[dt.datetime, int]:
        return (LONG_AGO, 0) if self.backwards else (_END_OF_TIME, _LAST_ID)

    def _part(self, sql: str, conditions: Conditions, time: str, values: dict[str, Any]) -> str:
        values |= conditions.values
        within = _IN_RANGE.format(conditions=conditions.row_sql, direction=self._direction)
        return sql.format(
            time=time, columns=TRANSACTION_COLUMNS, conditions=conditions.row_sql,
            rows=conditions.first_rows(within),
            direction=self._direction, compare=">=" if self.backwards else "<=",
            strictly=">=" if self.backwards else "<",
        )  # fmt: skip

    def _hand_out(
        self,
        rows: list[tuple[Any, ...]],
        plans: list[tuple[PlacedStream, list[SequenceRange]]],
        ended: list[UnplacedStream],
        opened: list[UnplacedStream],
    ) -> None:
        """Give each stream its rows in its order, which a UNION ALL does not promise."""
        by_number: dict[int, list[tuple[dt.datetime, dt.datetime, TransactionRow]]] = {}
        learn_touched(rows, self._session.visibility, before=3)
        for number, at, mark, *values in rows:
            row = transaction_of(values, self._session.visibility)
            by_number.setdefault(number, []).append((at, mark, row))
        number = 0
        for stream, ranges in plans:
            found = []
            for _ in ranges:
                number += 1
                part = [(at, row) for at, _, row in by_number.get(number, ())]
                part.sort(key=lambda one: one[1].commit_seq or 0, reverse=not self.backwards)
                found.append(part)
            stream.take(ranges, found, self.limit + 1)
        unplaced = [(-place, stream) for place, stream in enumerate(ended, start=1)]
        for place, one in (*unplaced, *((0, one) for one in opened)):
            mine = by_number.get(place, [])
            mine.sort(key=lambda row: (row[1], row[2].id), reverse=not self.backwards)
            one.take(mine, self.limit + 1)


def _range_values(plans: list[tuple[PlacedStream, list[SequenceRange]]]) -> dict[str, list[int]]:
    ranges = [(stream.incarnation.id, *one) for stream, found in plans for one in found]
    columns = map(list, zip(*ranges, strict=True))
    return dict(zip(("incarnations", "lows", "highs"), columns, strict=True))
