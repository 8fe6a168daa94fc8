"""Cut a table's changes in a slice into ranges of even counts."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

from psycopg import sql

from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.reading.places import (
    NOT_ABORTED,
    PLACED_DAY,
    PLACED_LSN,
    conditions,
    counted,
    counted_each,
    counted_in,
    everything,
    of_actors,
    of_relations,
    operation_codes,
    touches_keys,
    wanted_operations,
)
from replview.parquet.reading.slice_tables import relation_ids
from replview.parquet.slices import LAST_SEQ, Slice, SliceRange, SliceTable

#: Cuts are exact to this fraction of a range's size (1/100).
_FINENESS = 100

#: Transactions are counted in at most ``_BLOCKS`` blocks of places. A block that weighs more than
#: ``_HEAVY`` steps is counted by single transactions.
_BLOCKS = 4_096
_HEAVY = 4

# ``weight`` is how many rows come of a transaction, ``changes`` how many changes.
# (Sums of int are bigint; those of bigint would be numeric, and slow.)
_COUNTED = """
    SELECT t.id, t.commit_seq, ({weight})::int AS weight, {changes} AS changes, {lsn} AS lsn,
           {day} AS day
    FROM transaction t WHERE {where} {order} OFFSET 0
"""
_COLUMNS = """
    day, min(commit_seq), max(commit_seq), sum(weight)::bigint,
    sum(coalesce(changes, weight))::bigint,
    (min(lsn) - '0/0')::bigint, (max(lsn) - '0/0')::bigint
"""
_BY_BLOCK = """
    SELECT {columns} FROM ({counted}) AS counted WHERE weight > 0
    GROUP BY day, (commit_seq - {first}) / {width} ORDER BY day, 2
"""
# One query counts all tables, however many there are.
_TABLES_BY_BLOCK = """
    SELECT relation, {columns} FROM (
        SELECT r.key::bigint AS relation, t.commit_seq, ({weight})::int AS weight,
               ({changes})::int AS changes, {lsn} AS lsn, {day} AS day
        FROM transaction t, jsonb_each(t.relations) r
        WHERE {where} AND r.key = ANY({names}) OFFSET 0) AS counted
    WHERE weight > 0
    GROUP BY relation, day, (commit_seq - {first}) / {width} ORDER BY relation, day, 3
"""
_ONE_BY_ONE = """
    SELECT {columns}, CASE WHEN weight > {step} THEN id END
    FROM (SELECT *, sum(weight) OVER (ORDER BY commit_seq ROWS UNBOUNDED PRECEDING) - weight
                 AS before
          FROM ({counted}) AS counted
          WHERE weight > 0 AND day IS NOT DISTINCT FROM {of_day}) AS placed
    GROUP BY day, floor(before / {step}), CASE WHEN weight > {step} THEN id END
    ORDER BY 2
"""
# This query returns the last seq of each part of one transaction.
_EDGES = """
    SELECT max(seq), sum(weight)::bigint, count(*)
    FROM (SELECT seq, weight, sum(weight) OVER (ORDER BY seq) AS upto
          FROM (SELECT c.seq, CASE WHEN c.op = 'U' THEN {double} ELSE 1 END AS weight FROM change c
                WHERE c.transaction_id = {id} AND {relations} AND c.op::text = ANY({codes})
                  AND {of_actors} AND {not_aborted}) AS counted) AS placed
    GROUP BY width_bucket(upto - 1, {offsets}::numeric[]) ORDER BY 1
"""


def rows_of_update(part: Slice, table: SliceTable) -> int:
    """Return how many rows an update gives: two where the row before it is given, too."""
    whole = any(each.replica_identity == "FULL" for each in table.versions)
    return 2 if whole or part.before != "sent" else 1


@dataclass(frozen=True, slots=True)
class _CutPiece:
    """Consecutive transactions, or one large transaction or a part of it."""

    day: dt.date | None
    first: int
    last: int
    weight: int
    changes: int
    first_lsn: int
    last_lsn: int
    large_id: int | None = None
    after_seq: int = 0
    through_seq: int = LAST_SEQ


@dataclass(frozen=True, slots=True)
class _Counting:
    part: Slice
    table: SliceTable | None
    relation_ids: list[int] | None

    @property
    def operations(self) -> tuple[str, ...]:
        if self.table is None:
            return wanted_operations(self.part)
        return wanted_operations(self.part, rows=True, truncations=self.table.truncations)

    @property
    def update_weight(self) -> int:
        """Return how many rows an update gives; without a table an update is one record."""
        return 1 if self.table is None else rows_of_update(self.part, self.table)

    def sql(self, update_weight: int) -> sql.Composable:
        if self.table is not None:
            return counted(self.operations, self.table.relation_id, update_weight=update_weight,
                           whose=self.part.whose)  # fmt: skip
        return counted_in(self.operations, self.relation_ids, self.part.whose)


def cut(
    connection: StoreConnection,
    part: Slice,
    table: SliceTable | None,
    *,
    parts: int | None = None,
    rows_per_part: int | None = None,
    by_day: bool = False,
) -> list[SliceRange]:
    """Cut the slice into ranges in the order of history, none empty, even within one transaction.

    Either so many ``parts`` or as many as ``rows_per_part`` asks for; without both, one. With
    ``by_day`` each range is of one day of commits (UTC), and days are cut one by one. ``table``
    None: all changes of the slice, also changes without a table.
    """
    ids = relation_ids(connection, part) if table is None else [table.relation_id]
    counting = _Counting(part, table, ids)
    blocks = _blocks(connection, counting, by_day)
    return _cut(connection, counting, blocks, parts, rows_per_part, by_day)


def cut_tables(
    connection: StoreConnection, part: Slice, wanted: Mapping[int, tuple[SliceTable, int]]
) -> dict[int, list[SliceRange]]:
    """Like cut() by day, for several tables by relation, each with its number of rows per part.

    One query counts all tables; its answer is read table by table.
    """
    found: dict[int, list[SliceRange]] = {relation: [] for relation in wanted}
    if not wanted:
        return found
    query = _tables_by_block(part, [table for table, _ in wanted.values()])
    with connection.transaction(), connection.cursor("blocks") as rows:
        rows.itersize = _BLOCKS
        for relation, group in groupby(rows.execute(query), key=itemgetter(0)):
            table, rows_per_part = wanted[relation]
            counting = _Counting(part, table, [relation])
            blocks = (_CutPiece(*row[1:]) for row in group)
            found[relation] = _cut(connection, counting, blocks, None, rows_per_part, True)
    return found


def _tables_by_block(part: Slice, tables: Sequence[SliceTable]) -> sql.Composed:
    names = [str(table.relation_id) for table in tables]
    double = [str(table.relation_id) for table in tables if rows_of_update(part, table) > 1]
    operations = wanted_operations(part, rows=True)
    weight = sql.SQL("CASE WHEN r.key = ANY({}) THEN 2 ELSE 1 END").format(double)
    return sql.SQL(_TABLES_BY_BLOCK).format(
        columns=sql.SQL(_COLUMNS),
        weight=counted_each(operations, update_weight=weight, whose=part.whose),
        changes=counted_each(operations, update_weight=sql.SQL("1"), whose=part.whose),
        lsn=PLACED_LSN, day=PLACED_DAY, names=names,
        where=conditions(part, everything(part), [table.relation_id for table in tables]),
        first=part.after_seq + 1, width=_width(part),
    )  # fmt: skip


def _cut(
    connection: StoreConnection,
    counting: _Counting,
    pieces: Iterable[_CutPiece],
    parts: int | None,
    rows_per_part: int | None,
    by_day: bool,
) -> list[SliceRange]:
    found: list[SliceRange] = []
    for day, group in groupby(pieces, key=lambda piece: piece.day):
        blocks = list(group)
        total = sum(piece.weight for piece in blocks)
        number = -(-total // rows_per_part) if rows_per_part else min(parts or 1, total)
        step = max(1.0, total / (number * _FINENESS))
        # A day that becomes one range needs no finer count.
        fine = _fine(connection, counting, blocks, step, by_day) if number > 1 else blocks
        split = _split(connection, counting, fine, total, number)
        found += _ranges(split, total, number, day, by_day=by_day)
    return found


def _counted(
    counting: _Counting, within: SliceRange, by_day: bool, *, in_order: bool
) -> sql.Composed:
    return sql.SQL(_COUNTED).format(
        weight=counting.sql(counting.update_weight),
        changes=counting.sql(1) if counting.update_weight > 1 else sql.SQL("NULL::int"),
        lsn=PLACED_LSN,
        day=PLACED_DAY if by_day else sql.SQL("NULL::date"),
        where=sql.SQL("{} AND {}").format(
            conditions(counting.part, within, counting.relation_ids), touches_keys(counting.table)
        ),
        order=sql.SQL("ORDER BY t.commit_seq" if in_order else ""),
    )


def _blocks(connection: StoreConnection, counting: _Counting, by_day: bool) -> list[_CutPiece]:
    """Count the whole slice in blocks."""
    part = counting.part
    query = sql.SQL(_BY_BLOCK).format(
        columns=sql.SQL(_COLUMNS),
        counted=_counted(counting, everything(part), by_day, in_order=False),
        first=part.after_seq + 1,
        width=_width(part),
    )
    return [_CutPiece(*row) for row in connection.execute(query)]


def _width(part: Slice) -> int:
    """Return the width of a block in places."""
    return (part.through_seq - part.after_seq) // _BLOCKS + 1


def _fine(
    connection: StoreConnection,
    counting: _Counting,
    blocks: Iterable[_CutPiece],
    step: float,
    by_day: bool,
) -> list[_CutPiece]:
    """Count the heavy blocks of one day in finer pieces; adjacent heavy blocks share a query."""
    found: list[_CutPiece] = []
    for heavy, group in groupby(blocks, key=lambda piece: piece.weight > step * _HEAVY):
        some = list(group)
        if not heavy:
            found += some
            continue
        within = SliceRange(after=(some[0].first - 1, LAST_SEQ), through=(some[-1].last, LAST_SEQ))
        query = sql.SQL(_ONE_BY_ONE).format(
            columns=sql.SQL(_COLUMNS),
            counted=_counted(counting, within, by_day, in_order=True),
            step=sql.SQL("{}::float8").format(step),
            of_day=sql.SQL("{}::date").format(some[0].day),
        )
        found += [_CutPiece(*row) for row in connection.execute(query)]
    return found


def _split(
    connection: StoreConnection,
    counting: _Counting,
    pieces: Iterable[_CutPiece],
    total: int,
    number: int,
) -> list[_CutPiece]:
    """Cut large transactions where a range ends within them."""
    found: list[_CutPiece] = []
    before = 0
    for piece in pieces:
        last = min(number, -(-(before + piece.weight) * number // total))
        ends = range(before * number // total + 1, last)
        offsets = [at for end in ends if (at := total * end // number - before) > 0]
        if piece.large_id is not None and offsets:
            found += _parts_of(connection, counting, piece, offsets)
        else:
            found.append(piece)
        before += piece.weight
    return found


def _parts_of(
    connection: StoreConnection, counting: _Counting, piece: _CutPiece, offsets: Sequence[int]
) -> list[_CutPiece]:
    query = sql.SQL(_EDGES).format(
        double=counting.update_weight,
        id=piece.large_id,
        relations=of_relations(counting.relation_ids),
        codes=operation_codes(counting.operations),
        of_actors=of_actors(counting.part.whose),
        not_aborted=NOT_ABORTED,
        offsets=list(offsets),
    )
    found: list[_CutPiece] = []
    after = 0
    for last, weight, changes in connection.execute(query):
        found.append(
            replace(
                piece, weight=int(weight), changes=int(changes), after_seq=after, through_seq=last
            )
        )
        after = last
    return found or [piece]


def _ranges(
    pieces: Iterable[_CutPiece], total: int, number: int, day: dt.date | None, *, by_day: bool
) -> list[SliceRange]:
    """Make ranges of pieces; a piece belongs to the range that its middle is in."""
    placed: dict[int, list[_CutPiece]] = {}
    before = 0
    for piece in pieces:
        middle = (2 * before + piece.weight) * number // (2 * total)
        placed.setdefault(min(middle, number - 1), []).append(piece)
        before += piece.weight
    return [
        SliceRange(
            after=(some[0].first, some[0].after_seq)
            if some[0].after_seq
            else (some[0].first - 1, LAST_SEQ),
            through=(some[-1].last, some[-1].through_seq),
            rows=sum(piece.changes for piece in some),
            first_lsn=min(piece.first_lsn for piece in some),
            last_lsn=max(piece.last_lsn for piece in some),
            commit_date=day,
            by_day=by_day,
        )
        for some in placed.values()
    ]
