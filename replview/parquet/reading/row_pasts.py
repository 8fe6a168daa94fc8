"""What rows were before updates that did not tell: worked out from the record, never invented.

The same answers as ``replview.store.read.row_history.before_images`` gives the pages. The row's
last change before this one, in the same life of the slot, left it as it then was; what that change
did not send (unchanged TOAST) an earlier one may have. Nothing is told across a hole in the record,
a truncation, a deletion, or where some operation of the table is not published.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from psycopg import sql

from replview.parquet.reading.connecting import Connection
from replview.parquet.reading.places import NOT_ABORTED, lsn_text
from replview.parquet.reading.row_shapes import Breaks, Place, Shapes, Step

#: Earlier changes looked at in each round; most rows need but the first.
_ROUNDS = (1, 2, 17, 17, 17)
#: And in all.
_MOST_STEPS = 20

_COLUMNS = sql.SQL("""
    c.transaction_id, c.seq, (c.lsn - '0/0')::bigint, c.op::text, c.old_kind::text, c.old::text,
    c.new::text, c.version_id, c.key_hash, c.old_key_hash, (t.commit_lsn - '0/0')::bigint
""")
_MINE = sql.SQL("""
    SELECT {columns} FROM unnest(%s::bigint[], %s::int[]) AS w (id, seq)
    JOIN change c ON c.transaction_id = w.id AND c.seq = w.seq
    JOIN transaction t ON t.id = w.id
""").format(columns=_COLUMNS)
_PAST = sql.SQL("""
    SELECT w.number, p.*
    FROM unnest(%s::int[], %s::bigint[], %s::pg_lsn[], %s::int[]) AS w (number, key_hash, lsn, seq)
    CROSS JOIN LATERAL (
        SELECT {columns}
        FROM change c JOIN transaction t ON t.id = c.transaction_id
        WHERE c.relation_id = %s AND c.key_hash = w.key_hash AND (c.lsn, c.seq) < (w.lsn, w.seq)
          AND t.incarnation_id = %s AND t.state IN ('committed', 'snapshot') AND {not_aborted}
        ORDER BY c.lsn DESC, c.seq DESC LIMIT %s
    ) p
""").format(columns=_COLUMNS, not_aborted=NOT_ABORTED)
_OF_BASELINES = sql.SQL("""
    SELECT w.number, {columns}
    FROM unnest(%s::int[], %s::bigint[], %s::bigint[]) AS w (number, transaction_id, key_hash)
    JOIN change c ON c.transaction_id = w.transaction_id AND c.relation_id = %s
                 AND c.key_hash = w.key_hash
    JOIN transaction t ON t.id = c.transaction_id AND t.state = 'snapshot'
""").format(columns=_COLUMNS)


@dataclass(slots=True)
class Past:
    """One update, and how far its row was followed back."""

    change: Step
    #: What the row is known by there, and its hash.
    key: tuple[Any, ...]
    key_hash: int
    #: Look at what is before this LSN and seq.
    until: tuple[int, int]
    #: The place that follows whatever is looked at.
    upper: Place
    missing: set[str]
    #: What the server sent of the old row (its key), and what earlier changes tell.
    image: dict[str, Any]
    #: Where a value that earlier changes tell is: transaction, seq, side.
    origins: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    looked_at: int = 0
    ended: bool = False
    #: Some earlier change tells of the row: what is known of it is true.
    found: bool = False


class RowPasts:
    """The rows before updates of one table in one life of a slot."""

    def __init__(self, connection: Connection, relation_id: int, life: int) -> None:
        self._connection = connection
        self._relation_id, self._life = relation_id, life
        self._shapes = Shapes.read(connection, relation_id)
        self._breaks = Breaks.read(connection, relation_id, life)
        #: Characters of rows read since the last look.
        self.read_characters = 0

    def of(self, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Past]:
        """By (transaction, seq), of those updates whose row before something is known of."""
        self.read_characters = 0
        ids, seqs = [place[0] for place in places], [place[1] for place in places]
        mine = [self._step(row) for row in self._connection.execute(_MINE, [ids, seqs])]
        pasts = [past for past in map(self._begin, mine) if past is not None]
        for number, limit in enumerate(_ROUNDS):
            asked = [past for past in pasts if not past.ended]
            if not asked:
                break
            exhausted = self._read(asked, limit)
            if number == 0:
                self._read_overlapping(asked)
            for past, is_all in zip(asked, exhausted, strict=True):
                self._follow(past, is_all=is_all)
        return {(p.change.transaction_id, p.change.seq): p for p in pasts if p.found}

    def _step(self, row: Sequence[Any]) -> Step:
        values = list(row)
        for index in (5, 6):
            if values[index] is not None:
                self.read_characters += len(values[index])
                values[index] = orjson.loads(values[index])
        return Step(*values)

    def _begin(self, change: Step) -> Past | None:
        """Where to begin; None where the change does not tell its row's key."""
        key, shape = self._shapes.key_before(change), self._shapes.versions.get(change.version_id)
        key_hash = change.key_hash if change.old_key_hash is None else change.old_key_hash
        if key is None or shape is None or key_hash is None:
            return None
        sent = dict(change.old or {})
        until = (change.lsn, change.seq)
        missing = set(shape.kinds) - sent.keys()
        return Past(change, key, key_hash, until, change.place, missing, sent)

    def _read(self, asked: Sequence[Past], limit: int) -> list[bool]:
        """The next earlier changes of each; whether that was all there is."""
        values = [
            list(range(len(asked))),
            [past.key_hash for past in asked],
            [lsn_text(past.until[0]) for past in asked],
            [past.until[1] for past in asked],
            self._relation_id, self._life, limit,
        ]  # fmt: skip
        counted = [0] * len(asked)
        for number, *row in self._connection.execute(_PAST, values):
            counted[number] += 1
            past, step = asked[number], self._step(row)
            past.steps.append(step)
            past.until = min(past.until, (step.lsn, step.seq))
        return [count < limit for count in counted]

    def _read_overlapping(self, asked: Sequence[Past]) -> None:
        """Rows of baselines that stand between a change and its commit: their LSN is the higher
        one, and still they come first.
        """
        wanted = [
            (number, transaction_id)
            for number, past in enumerate(asked)
            for position, transaction_id in self._breaks.baselines
            if past.change.lsn <= position <= past.change.commit_lsn
        ]
        if not wanted:
            return
        values = [
            [number for number, _ in wanted],
            [transaction_id for _, transaction_id in wanted],
            [asked[number].key_hash for number, _ in wanted],
            self._relation_id,
        ]
        for number, *row in self._connection.execute(_OF_BASELINES, values):
            asked[number].steps.append(self._step(row))

    def _follow(self, past: Past, *, is_all: bool) -> None:
        """Take what the steps read so far tell; afterwards it has ended, or more must be read."""
        distinct = {(step.transaction_id, step.seq): step for step in past.steps}
        steps = sorted(distinct.values(), key=lambda step: step.place)
        past.steps = []
        while steps and not past.ended:
            step = steps.pop()
            if step.op == "S" and not is_all and all(other.op == "S" for other in steps):
                # A change written before the baseline and committed after it may be among the next.
                past.steps = [*steps, step]
                break
            past.looked_at += 1
            # The same hash can be another key's.
            if self._shapes.key_after(step) == past.key:
                past.ended = self._take(past, step)
                if not past.ended and step.old_key_hash is not None:
                    self._move(past, step)
                    return
        past.ended = past.ended or is_all or past.looked_at >= _MOST_STEPS

    def _take(self, past: Past, step: Step) -> bool:
        """Take what one earlier change tells; whether there is nothing more to be learnt."""
        breaks = self._breaks
        if step.op == "D" or breaks.unpublished or breaks.between(step.place, past.upper):
            return True
        past.found = True
        past.upper = step.place
        lasting = self._shapes.outliving(step.told, step, past.change)
        for name in past.missing & lasting.keys():
            past.image[name] = lasting[name]
            past.origins[name] = (step.transaction_id, step.seq, step.side(name))
        past.missing -= lasting.keys()
        # Beyond these nothing is told of the row that this one left.
        return step.op in ("I", "S") or step.old_kind == "O" or not past.missing

    def _move(self, past: Past, step: Step) -> None:
        """The row was known by another key before this step: follow that one."""
        key = self._shapes.key_before(step)
        if key is None or step.old_key_hash is None:
            past.ended = True
            return
        past.key, past.key_hash = key, step.old_key_hash
        past.until = (step.lsn, step.seq)
