"""Making room in the store: whole days of the record are deleted, the oldest first.

A day is the transactions first seen on it (``store.partitions``). It goes with all that belongs to
it: transactions, their transitions, subtransactions and large values, the baselines read in them,
their share of the sums (``store.recounting``), and at last its partition of changes. What is left
is a record that begins later; ``retention.slots`` tells coverage of each slot

``since``, ``life``, ``lsn``
    from when on, and from where in which life, nothing is missing, so that "no change" is never
    said of deleted time.
``late``
    transactions that began on a deleted day and committed (or were left out) after some that are
    kept, as
    ``[life, LSN, identifier, commit time]``: between the changes of a row they are a break.

First the log and coverage tell it, then rows go in bounded pieces, then the sums are put right,
then the partition is dropped: nobody ever sees a transaction without its changes. Each step may be
repeated; ``retention.deleting`` names the day that is under way, and a crash ends nothing. No day
goes before all earlier ones, none of the last two days, none that has an open transaction, and with
an archive none before all of it is there and was counted (``store.archived``).
"""

import datetime as dt
import logging
import time
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError, connection, transaction

from decoder.scalars import LSN
from replview.store import archived, instance_settings
from replview.store.activity import BLOCK
from replview.store.models import (
    AbortedSubtransaction,
    Baseline,
    LargeValue,
    Slot,
    SlotEvent,
    Transaction,
    Transition,
)
from replview.store.partitions import first_id_of
from replview.store.recounting import recount

log = logging.getLogger(__name__)

BY = "replview"
#: Transactions of one piece.
_TOGETHER = 2000
#: Dropping a partition locks its parent: who writes waits for us no longer than that. More than
#: deadlock_timeout (1 s by default), after which an autovacuum of the partition gives way.
_LOCK_TIMEOUT = "1500ms"
#: Late transactions that are told of each life, the last ones.
_MOST_LATE = 1000
_DAYS_KEPT = 2

_DAYS = """
    SELECT to_date(right(c.relname, 8), 'YYYYMMDD'), (clock_timestamp() AT TIME ZONE 'UTC')::date
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'change'::regclass AND c.relname ~ '^change_[0-9]{8}$' ORDER BY 1
"""
_OPEN = """
    SELECT t.state, t.gid, t.xid, o.name || '/' || s.name FROM transaction t
    LEFT JOIN slot_incarnation i ON i.id = t.incarnation_id
    LEFT JOIN slot s ON s.id = i.slot_id LEFT JOIN source o ON o.id = s.source_id
    WHERE t.id >= %s AND t.id < %s AND t.state IN ('receiving', 'streaming', 'prepared', 'copying')
    ORDER BY t.id LIMIT 1
"""
_PLACED_AT = "coalesce(t.commit_time, t.stored_at, t.received_at)"
_LIVES = f"""
    SELECT t.incarnation_id, i.slot_id, count(*), min(t.commit_seq), max(t.commit_seq),
           max({_PLACED_AT}) FILTER (WHERE t.commit_seq IS NOT NULL AND t.state <> 'snapshot'),
           max(coalesce(t.end_lsn, t.commit_lsn)) FILTER (
               WHERE t.commit_seq IS NOT NULL AND t.state <> 'snapshot')::text,
           array_agg(DISTINCT ({_PLACED_AT} AT TIME ZONE 'UTC')::date)
    FROM transaction t LEFT JOIN slot_incarnation i ON i.id = t.incarnation_id
    WHERE t.id >= %s AND t.id < %s GROUP BY 1, 2 ORDER BY 1
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
class Dropped:
    """A day that is not in the store any more."""

    day: dt.date
    transactions: int
    #: Those that had some.
    slots: tuple[int, ...]


def drop_day(
    day: dt.date, *, why: str = "to make room", deadline: float | None = None
) -> Dropped | None:
    """Delete one day of the record; ``why`` ends the sentence in the slots' logs. None: it is kept
    (``why_kept`` tells why), or not all of it is gone yet (``finish`` goes on).
    """
    if instance_settings.read("retention.deleting", None) is not None or why_kept(day):
        return None
    dropped = _begin(day, why)
    return dropped if finish(deadline) else None


def oldest_day() -> dt.date | None:
    """The first day that the store has a partition of changes for; None: it has none."""
    days = _rows(_DAYS)
    return days[0][0] if days else None


def why_kept(day: dt.date | None) -> str:
    """Why a day may not be deleted now, in a sentence; empty: it may."""
    days = _rows(_DAYS)
    if day is None or not days or day > days[0][1] - dt.timedelta(days=_DAYS_KEPT):
        return "Of the record only today and yesterday are left, which are never deleted."
    if day != days[0][0]:
        return f"{days[0][0]} goes first: no day is deleted before those before it."
    found = _rows(_OPEN, [*_ids(day)])
    if not found:
        return archived.why_wanted(day, *_ids(day))
    state, gid, xid, slot = found[0]
    name = f" {gid}" if gid else f" {xid}" if xid else ""
    return (
        f"{day} is the oldest day, and transaction{name} of {slot or 'a removed slot'}, first seen "
        f"on it, is still {state}: no day goes before its transactions have ended."
    )


def is_under_way() -> bool:
    """Whether a day is half deleted."""
    return instance_settings.read("retention.deleting", None) is not None


def finish(deadline: float | None = None) -> bool:
    """Go on with the day that is under way until all of it is gone; False if the deadline
    (``time.monotonic()``) came first, or somebody uses its partition.
    """
    found = instance_settings.read("retention.deleting", None)
    if found is None:
        return True
    day = dt.date.fromisoformat(found["day"])
    while _delete_some(*_ids(day)):
        if deadline is not None and time.monotonic() > deadline:
            return False
    while found["lives"]:
        life, first, last, days = found["lives"][0]
        recount(life, first, last, [dt.date.fromisoformat(one) for one in days])
        # Once, however often the partition is in use after that.
        found = {**found, "lives": found["lives"][1:]}
        instance_settings.write("retention.deleting", found, BY)
    return _drop_partition(day)


def what_waits() -> str:
    """Why the day that is under way is not gone yet, in a sentence; empty: it is being worked on,
    or there is none.
    """
    found = instance_settings.read("retention.deleting", None)
    if found is None or not found.get("in_use"):
        return ""
    return f"The changes of {found['day']} are being read: they go once nobody reads them."


@transaction.atomic
def _begin(day: dt.date, why: str) -> Dropped:
    """Tell coverage and the logs before the first row goes, and what is to be done."""
    low, high = _ids(day)
    archived.remember(low, high)
    lives = _rows(_LIVES, [low, high])
    known = dict(instance_settings.read("retention.slots", {}))
    counts: dict[int, int] = {}
    for life, slot_id, count, first, last, at, lsn, _ in lives:
        if slot_id is None:
            continue
        counts[slot_id] = counts.get(slot_id, 0) + count
        if at is None:
            continue
        slot = known.setdefault(str(slot_id), {"since": "", "lsn": None, "life": life, "late": []})
        # Nothing is missing after the last one's moment.
        since = (at.astimezone(dt.UTC) + dt.timedelta(microseconds=1)).isoformat(
            timespec="microseconds"
        )
        slot["since"] = max(since, slot["since"])
        # Apart: a server's clock may have been ahead in an earlier life.
        if lsn is not None and (slot["lsn"] is None or _place(life, lsn) > _place(**slot)):
            slot.update(life=life, lsn=lsn)
        slot["late"] = (slot["late"] + _late(life, low, high, first, last))[-5 * _MOST_LATE :]
    for slot in Slot.objects.filter(pk__in=counts).select_related("incarnation"):
        SlotEvent.objects.create(
            slot=slot,
            incarnation_id=slot.incarnation_id,
            kind="retention",
            message=f"The record of {day} was deleted {why}.",
            after_commit_seq=slot.incarnation.commit_seq if slot.incarnation else 0,
            detail={"day": str(day), "transactions": counts[slot.pk]},
        )
    spans = [
        [life, first // BLOCK, last // BLOCK, [str(one) for one in days]]
        for life, _, _, first, last, _, _, days in lives
        if first is not None
    ]
    alive = {str(pk) for pk in Slot.objects.values_list("pk", flat=True)}
    slots = {pk: told for pk, told in known.items() if pk in alive}
    instance_settings.write("retention.slots", slots, BY)
    instance_settings.write("retention.last_day", str(day), BY)
    instance_settings.write("retention.deleting", {"day": str(day), "lives": spans}, BY)
    return Dropped(day, sum(row[2] for row in lives), tuple(sorted(counts)))


def _place(life: int, lsn: str, **_: Any) -> tuple[int, int]:
    """Later lives have higher numbers, and LSNs of their own."""
    return life, int(LSN.parse(lsn))


def _late(life: int, low: int, high: int, first: int, last: int) -> list[list[Any]]:
    values = {"life": life, "low": low, "high": high, "first": first, "last": last}
    found = _rows(_LATE, {**values, "most": _MOST_LATE})
    return [[one, lsn, pk, at.isoformat() if at else None] for one, lsn, pk, at in reversed(found)]


@transaction.atomic
def _delete_some(low: int, high: int) -> bool:
    """A piece of a day's rows; False: that was the last."""
    ids = Transaction.objects.filter(pk__gte=low, pk__lt=high).order_by("pk")
    piece = list(ids.values_list("pk", flat=True)[:_TOGETHER])
    until = piece[-1] + 1 if len(piece) == _TOGETHER else high
    for belonging in (Transition, AbortedSubtransaction, LargeValue, Baseline):
        of_these = belonging.objects.filter(transaction_id__gte=low, transaction_id__lt=until)
        of_these.delete()
    Transaction.objects.filter(pk__gte=low, pk__lt=until).delete()
    return len(piece) == _TOGETHER


def _drop_partition(day: dt.date) -> bool:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
            cursor.execute(f"DROP TABLE IF EXISTS change_{day:%Y%m%d}")
            cursor.execute("SET LOCAL lock_timeout = DEFAULT")
            instance_settings.write("retention.deleting", None, BY)
    except OperationalError:  # somebody reads it
        waiting = {"day": str(day), "lives": [], "in_use": True}
        instance_settings.write("retention.deleting", waiting, BY)
        return False
    log.warning("the record of %s was deleted to make room in the store", day)
    return True


def _ids(day: dt.date) -> tuple[int, int]:
    return first_id_of(day), first_id_of(day + dt.timedelta(days=1))


def _rows(sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
