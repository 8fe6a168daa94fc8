"""From what somebody asks for to a slice with fixed ends."""

import datetime as dt
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Literal

from psycopg import sql

from replview.parquet.reading.connecting import Connection, StoreProblem
from replview.parquet.reading.places import PLACED_LSN, lsn_text
from replview.parquet.slices import NOT_NARROWED, OPERATIONS, Narrowing, Slice

_SHOWN = 20
_LIVES = """
    SELECT o.name, s.name, i.id, i.number, i.id = s.incarnation_id
    FROM slot s JOIN source o ON o.id = s.source_id
    LEFT JOIN slot_incarnation i ON i.slot_id = s.id
    WHERE (%(source)s::text IS NULL OR o.name = %(source)s)
      AND (%(slot)s::text IS NULL OR s.name = %(slot)s)
    ORDER BY o.name, s.name, i.number
"""
_LAST = "SELECT coalesce(max(commit_seq), 0) FROM transaction WHERE incarnation_id = %s"
# Without baselines: they stand where they were stored, whatever their position.
_NEXT = """
    SELECT t.commit_seq, {lsn} < {wanted}::pg_lsn FROM transaction t
    WHERE t.incarnation_id = {life} AND t.commit_seq > {after} AND t.state <> 'snapshot'
    ORDER BY t.commit_seq LIMIT 1
"""
_BASELINES = """
    SELECT min(t.commit_seq), max(t.commit_seq)
    FROM baseline b JOIN transaction t ON t.id = b.transaction_id
    WHERE t.incarnation_id = %s AND t.state = 'snapshot'
      AND t.commit_lsn >= coalesce(%s::pg_lsn, '0/0')
      AND (%s::pg_lsn IS NULL OR t.commit_lsn <= %s::pg_lsn)
"""


def resolve(
    connection: Connection,
    *,
    source: str | None = None,
    slot: str | None = None,
    incarnation: int | None = None,
    from_lsn: int | None = None,
    to_lsn: int | None = None,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    after_seq: int | None = None,
    through_seq: int | None = None,
    tables: Sequence[str] = (),
    operations: Sequence[str] = (),
    actors: Sequence[str] = (),
    before: Literal["sent", "derived"] = "sent",
    narrowed: Narrowing = NOT_NARROWED,
) -> Slice:
    """The slice that this means now: open ends become what is stored at this moment.

    ``source`` and ``slot`` may be left out where the store has but one; ``incarnation`` is the
    life's number, by default the current one. Raises ``StoreProblem``.
    """
    _check_operations(operations)
    source, slot, life, number = _life(connection, source, slot, incarnation)
    row = connection.execute(_LAST, [life]).fetchone()
    last = int(row[0]) if row else 0
    first = max(after_seq or 0, 0)
    last = last if through_seq is None else min(last, through_seq)
    if from_lsn is not None or to_lsn is not None:
        first, last = _narrowed(connection, life, first, last, from_lsn, to_lsn)
    return Slice(
        source=source, slot=slot, incarnation_id=life, incarnation=number,
        after_seq=first, through_seq=max(first, last), since=since, until=until,
        from_lsn=from_lsn, to_lsn=to_lsn, tables=tuple(tables), operations=tuple(operations),
        actors=tuple(actors), before=before, narrowed=narrowed,
    )  # fmt: skip


def _check_operations(operations: Sequence[str]) -> None:
    for operation in operations:
        if operation not in OPERATIONS:
            raise StoreProblem(
                f"there is no operation {operation!r}", f"choose of {', '.join(OPERATIONS)}"
            )


def _life(
    connection: Connection, source: str | None, slot: str | None, incarnation: int | None
) -> tuple[str, str, int, int]:
    """Source, slot, the life's identifier and number."""
    if slot and not source and "/" in slot:
        source, slot = slot.split("/", 1)
    found = connection.execute(_LIVES, {"source": source, "slot": slot}).fetchall()
    slots = list(dict.fromkeys((row[0], row[1]) for row in found))
    if not slots:
        everything = connection.execute(_LIVES, {"source": None, "slot": None}).fetchall()
        raise _no_slot(source, slot, [f"{row[0]}/{row[1]}" for row in everything])
    if len(slots) > 1:
        names = _some([f"{each[0]}/{each[1]}" for each in slots])
        raise StoreProblem(
            "the store has several slots", f"name one with source and slot; there are {names}"
        )
    lives = [row for row in found if row[2] is not None]
    chosen = [row for row in lives if (row[4] if incarnation is None else row[3] == incarnation)]
    if not chosen and incarnation is None:
        chosen = lives[-1:]
    if not chosen:
        name = f"{slots[0][0]}/{slots[0][1]}"
        if incarnation is None:
            raise StoreProblem(f"nothing was received of {name} yet", "start its receiver")
        numbers = ", ".join(str(row[3]) for row in lives) or "none"
        raise StoreProblem(
            f"{name} has no incarnation {incarnation}", f"name another; there are {numbers}"
        )
    return chosen[0][0], chosen[0][1], int(chosen[0][2]), int(chosen[0][3])


def _no_slot(source: str | None, slot: str | None, names: list[str]) -> StoreProblem:
    names = list(dict.fromkeys(names))
    wanted = "/".join(part for part in (source, slot) if part)
    if not names:
        return StoreProblem("the store has no slots", "add a source and a slot in replview first")
    like = get_close_matches(wanted, names, 1)
    hint = f"did you mean {like[0]}? " if like else ""
    return StoreProblem(
        f"the store has no slot {wanted!r}", f"{hint}name one with source and slot; "
        f"there are {_some(names)}",
    )  # fmt: skip


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _narrowed(
    connection: Connection, life: int, first: int, last: int,
    from_lsn: int | None, to_lsn: int | None,
) -> tuple[int, int]:  # fmt: skip
    """The commit_seqs between which every transaction of these LSNs is."""
    narrow_first = first if from_lsn is None else _before(connection, life, first, last, from_lsn)
    narrow_last = last if to_lsn is None else _before(connection, life, first, last, to_lsn + 1)
    texts = [None if lsn is None else lsn_text(lsn) for lsn in (from_lsn, to_lsn)]
    row = connection.execute(_BASELINES, [life, texts[0], texts[1], texts[1]]).fetchone()
    if row and row[0] is not None:
        narrow_first = max(first, min(narrow_first, row[0] - 1))
        narrow_last = min(last, max(narrow_last, row[1]))
    return narrow_first, narrow_last


def _before(connection: Connection, life: int, first: int, last: int, lsn: int) -> int:
    """The last commit_seq before an LSN: within a life both grow together."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        query = sql.SQL(_NEXT).format(lsn=PLACED_LSN, wanted=lsn_text(lsn), life=life, after=middle)
        row = connection.execute(query).fetchone()
        if row is None or row[0] > high:
            # Nothing but baselines is left up to there.
            high = middle
        elif row[1]:
            low = row[0]
        else:
            high = middle
    return low
