"""What coverage and the slots' logs are told of a day before its first row goes."""

import datetime as dt
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import connection

from decoder.scalars import LSN
from replview.store import instance_settings
from replview.store.models import Slot, SlotEvent

BY = "replview"
#: Late transactions that are told of each life, the last ones.
_MOST_LATE = 1000

_PLACED_AT = "coalesce(t.commit_time, t.stored_at, t.received_at)"
_LIVES = f"""
    SELECT t.incarnation_id, i.slot_id, count(*), min(t.commit_seq), max(t.commit_seq),
           max({_PLACED_AT}) FILTER (WHERE t.commit_seq IS NOT NULL AND t.state <> 'snapshot'),
           max(coalesce(t.end_lsn, t.commit_lsn)) FILTER (
               WHERE t.commit_seq IS NOT NULL AND t.state <> 'snapshot')::text,
           array_agg(DISTINCT ({_PLACED_AT} AT TIME ZONE 'UTC')::date)
    FROM transaction t LEFT JOIN slot_incarnation i ON i.id = t.incarnation_id
    WHERE t.id >= %(low)s AND t.id < %(high)s
      AND (%(slots)s::bigint[] IS NULL OR i.slot_id = ANY (%(slots)s))
    GROUP BY 1, 2 ORDER BY 1
"""  # noqa: S608 (of constants)
# Of each life those after the first that is kept, the last ones first.
_LATE = """
    SELECT t.incarnation_id, t.commit_lsn::text, t.id, t.commit_time FROM transaction t
    WHERE t.incarnation_id = %(life)s AND t.id >= %(low)s AND t.id < %(high)s
      AND t.commit_lsn IS NOT NULL AND t.state IN ('committed', 'skipped')
      AND t.commit_seq <= %(last)s
      AND t.commit_seq > (SELECT k.commit_seq FROM transaction k
                          WHERE k.incarnation_id = %(life)s AND k.commit_seq >= %(first)s
                            AND k.id >= %(high)s ORDER BY k.commit_seq LIMIT 1)
    ORDER BY t.commit_seq DESC LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class Told:
    """What there is of a day."""

    #: ``(life, its first and last commit_seq, the days of its commits)``.
    lives: list[tuple[int, int | None, int | None, list[dt.date]]]
    #: Transactions of each slot.
    counts: dict[int, int]
    #: And of lives whose slot is gone.
    orphans: int


def tell(day: dt.date, low: int, high: int, why: str, slots: Collection[int] | None) -> Told:
    """Of these slots' share of a day, or of all; within the store transaction that begins it."""
    listed = None if slots is None else sorted(slots)
    lives = _rows(_LIVES, {"low": low, "high": high, "slots": listed})
    known = dict(instance_settings.read("retention.slots", {}))
    counts: dict[int, int] = {}
    orphans = 0
    for life, slot_id, count, first, last, at, lsn, _ in lives:
        if slot_id is None:
            orphans += count
            continue
        counts[slot_id] = counts.get(slot_id, 0) + count
        if at is not None:
            slot = known.setdefault(
                str(slot_id), {"since": "", "lsn": None, "life": life, "late": []}
            )
            _tell_coverage(slot, life, at, lsn)
            slot["late"] = (slot["late"] + _late(life, low, high, first, last))[-5 * _MOST_LATE :]
    for pk in slots or ():
        if (told := known.get(str(pk))) is not None:
            told["through"] = max(str(day), told.get("through", ""))
    alive = {str(pk) for pk in Slot.objects.values_list("pk", flat=True)}
    kept = {pk: told for pk, told in known.items() if pk in alive}
    instance_settings.write("retention.slots", kept, BY)
    if slots is None:
        instance_settings.write("retention.last_day", str(day), BY)
    _log(day, why, counts)
    return Told([(row[0], row[3], row[4], row[7]) for row in lives], counts, orphans)


def _tell_coverage(slot: dict[str, Any], life: int, at: dt.datetime, lsn: str | None) -> None:
    # Nothing is missing after the last one's moment.
    since = at.astimezone(dt.UTC) + dt.timedelta(microseconds=1)
    slot["since"] = max(since.isoformat(timespec="microseconds"), slot["since"])
    # Apart: a server's clock may have been ahead in an earlier life.
    if lsn is not None and (slot["lsn"] is None or _place(life, lsn) > _place(**slot)):
        slot.update(life=life, lsn=lsn)


def _log(day: dt.date, why: str, counts: dict[int, int]) -> None:
    for slot in Slot.objects.filter(pk__in=counts).select_related("incarnation"):
        SlotEvent.objects.create(
            slot=slot,
            incarnation_id=slot.incarnation_id,
            kind="retention",
            message=f"The record of {day} was deleted {why}.",
            after_commit_seq=slot.incarnation.commit_seq if slot.incarnation else 0,
            detail={"day": str(day), "transactions": counts[slot.pk]},
        )


def _place(life: int, lsn: str, **_: Any) -> tuple[int, int]:
    """Later lives have higher numbers, and LSNs of their own."""
    return life, int(LSN.parse(lsn))


def _late(life: int, low: int, high: int, first: int, last: int) -> list[list[Any]]:
    values = {"life": life, "low": low, "high": high, "first": first, "last": last}
    found = _rows(_LATE, {**values, "most": _MOST_LATE})
    return [[one, lsn, pk, at.isoformat() if at else None] for one, lsn, pk, at in reversed(found)]


def _rows(sql: str, parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
