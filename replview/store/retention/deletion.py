"""Making room in the store: whole days of the record are deleted, the oldest first.

A day is the transactions first seen on it (``store.write.partitions``). It goes with all that
belongs to it: transactions, transitions, subtransactions and large values, the baselines read in
them, their share of the sums (``store.sums.activity``), and at last its partition of changes. What
is left begins later: ``retention.slots`` tells coverage of each slot from when on (``since``), and
from where in which incarnation (``life``, ``lsn``), nothing is missing; and which transactions
began on a deleted day and ended after some that are kept (``late``: ``[incarnation, LSN,
identifier, commit time]``): between the changes of a row they are a break.

First the log and coverage tell it, then rows go in bounded pieces, then the sums are put right,
then the partition is dropped: nobody ever sees a transaction without its changes. Each step may be
repeated; ``retention.deleting`` names the day that is under way, and a crash ends nothing. No day
goes before all earlier ones, none of the last two days, none that has an open transaction, and with
an archive none before all of it is there and was counted (``store.retention.archived``).

Where slots keep for different times (``store.retention.policy``), a day goes in shares, in pieces
(``store.retention.shares``), and the partition with the last of them; ``through`` is then the last
day that a slot has none of.
"""

import datetime as dt
import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError, connection, transaction

from decoder.scalars import LSN
from replview.store import instance_settings
from replview.store.django_session import rows
from replview.store.models import (
    AbortedSubtransaction,
    Baseline,
    LargeValue,
    Slot,
    Transaction,
    Transition,
)
from replview.store.read.days import first_id_of
from replview.store.read.history_places import BLOCK, PLACED_TIME
from replview.store.retention import archived
from replview.store.retention import day_sizes as kept_days
from replview.store.retention import shares as retention_shares
from replview.store.slot_log import add_line, after_seq
from replview.store.sums.activity import recount

log = logging.getLogger(__name__)

#: Transactions of one piece.
TRANSACTIONS_TOGETHER = 2000
#: Dropping a partition locks its parent: who writes waits for us no longer than that. More than
#: deadlock_timeout (1 s by default), after which an autovacuum of the partition gives way.
_LOCK_TIMEOUT = "1500ms"
_DAYS_KEPT = 2

#: Late transactions that are told of each incarnation, the last ones.
_MOST_LATE = 1000

_OPEN = """
    SELECT t.state, t.gid, t.xid, o.name || '/' || s.name FROM transaction t
    LEFT JOIN slot_incarnation i ON i.id = t.incarnation_id
    LEFT JOIN slot s ON s.id = i.slot_id LEFT JOIN source o ON o.id = s.source_id
    WHERE t.id >= %(low)s AND t.id < %(high)s
      AND t.state IN ('receiving', 'streaming', 'prepared', 'copying')
      AND (%(slots)s::bigint[] IS NULL OR s.id = ANY (%(slots)s))
    ORDER BY t.id LIMIT 1
"""
_INCARNATIONS = f"""
    SELECT t.incarnation_id, i.slot_id, count(*), min(t.commit_seq), max(t.commit_seq),
           max({PLACED_TIME}) FILTER (WHERE t.commit_seq IS NOT NULL AND t.state <> 'snapshot'),
           max(coalesce(t.end_lsn, t.commit_lsn)) FILTER (
               WHERE t.commit_seq IS NOT NULL AND t.state <> 'snapshot')::text,
           array_agg(DISTINCT ({PLACED_TIME} AT TIME ZONE 'UTC')::date)
    FROM transaction t LEFT JOIN slot_incarnation i ON i.id = t.incarnation_id
    WHERE t.id >= %(low)s AND t.id < %(high)s
      AND (%(slots)s::bigint[] IS NULL OR i.slot_id = ANY (%(slots)s))
    GROUP BY 1, 2 ORDER BY 1
"""  # noqa: S608 (of constants)
# Of each incarnation those after the first that is kept, the last ones first.
_LATE = """
    SELECT t.incarnation_id, t.commit_lsn::text, t.id, t.commit_time FROM transaction t
    WHERE t.incarnation_id = %(incarnation)s AND t.id >= %(low)s AND t.id < %(high)s
      AND t.commit_lsn IS NOT NULL AND t.state IN ('committed', 'skipped')
      AND t.commit_seq <= %(last)s
      AND t.commit_seq > (SELECT k.commit_seq FROM transaction k
                          WHERE k.incarnation_id = %(incarnation)s AND k.commit_seq >= %(first)s
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


@dataclass(frozen=True, slots=True)
class _DayRows:
    #: ``(incarnation, its first and last commit_seq, the days of its commits)``.
    incarnations: list[tuple[int, int | None, int | None, list[dt.date]]]
    #: Transactions of each slot.
    counts: dict[int, int]
    #: And of incarnations whose slot is gone.
    orphans: int


def drop_day(
    day: dt.date, *, why: str = "to make room", deadline: float | None = None
) -> Dropped | None:
    """Delete one day of the record; ``why`` ends the sentence in the slots' logs. None: it is kept
    (``why_kept``), or not all of it is gone yet (``finish`` goes on).
    """
    if is_under_way() or why_kept(day):
        return None
    dropped = _begin(day, why)
    return dropped if finish(deadline) else None


def drop_share(
    day: dt.date, slots: Collection[int], *, why: str, deadline: float | None = None
) -> Dropped | None:
    """Delete these slots' share of a day, its partition with the last; None: as ``drop_day``."""
    if is_under_way() or why_share_kept(day, slots):
        return None
    dropped = _begin(day, why, slots)
    return dropped if finish(deadline) else None


def oldest_day() -> dt.date | None:
    """The first day that the store has a partition of changes for; None: it has none."""
    days = kept_days.partitions()
    return days[0][0] if days else None


def why_kept(day: dt.date | None) -> str:
    """Why a day may not be deleted now, in a sentence; empty: it may."""
    oldest = oldest_day()
    if day is None or oldest is None or _is_late(day):
        return "Of the record only today and yesterday are left, which are never deleted."
    if day != oldest:
        return f"{oldest} goes first: no day is deleted before those before it."
    return _why_wanted(day, f"{day} is the oldest day, and")


def why_share_kept(day: dt.date, slots: Collection[int]) -> str:
    """Why what these slots have of a day may not be deleted now, in a sentence; empty: it may."""
    if _is_late(day):
        return "Today and yesterday are never deleted."
    return _why_wanted(day, f"Of {day}", slots)


def _is_late(day: dt.date) -> bool:
    """Today or yesterday, by the store's clock."""
    today: dt.date = rows("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date")[0][0]
    return day > today - dt.timedelta(days=_DAYS_KEPT)


def _why_wanted(day: dt.date, begin: str, slots: Collection[int] | None = None) -> str:
    """The first transaction of a day that has not ended, or what the archive lacks; else empty."""
    low, high = _ids(day)
    listed = None if slots is None else sorted(slots)
    for state, gid, xid, slot in rows(_OPEN, {"low": low, "high": high, "slots": listed}):
        name = f" {gid}" if gid else f" {xid}" if xid else ""
        return (
            f"{begin} transaction{name} of {slot or 'a removed slot'}, first seen on it, is still "
            f"{state}: no day goes before its transactions have ended."
        )
    return archived.why_wanted(day, low, high, slots=slots)


def is_under_way() -> bool:
    return instance_settings.read("retention.deleting", None) is not None


def finish(deadline: float | None = None) -> bool:
    """Go on with the day that is under way until all of it is gone; False if the deadline
    (``time.monotonic()``) came first, or somebody uses its partition.
    """
    found = instance_settings.read("retention.deleting", None)
    if found is None:
        return True
    day = dt.date.fromisoformat(found["day"])
    if found.get("share") is not None:
        until = float("inf") if deadline is None else deadline
        if not retention_shares.delete(*_ids(day), found, until):
            return False
        found = instance_settings.read("retention.deleting", found)
    else:
        while _delete_some(*_ids(day)):
            if deadline is not None and time.monotonic() > deadline:
                return False
    while found["lives"]:
        incarnation, first, last, days = found["lives"][0]
        recount(incarnation, first, last, [dt.date.fromisoformat(one) for one in days])
        # Once, however often the partition is in use after that.
        found = {**found, "lives": found["lives"][1:]}
        instance_settings.write("retention.deleting", found)
    if found.get("share") is not None and retention_shares.others_have_some(*_ids(day)):
        instance_settings.write("retention.deleting", None)
        return True
    return _drop_partition(day)


def what_waits() -> str:
    """Why the day under way is not gone yet, in a sentence; empty: it goes on, or there is none."""
    found = instance_settings.read("retention.deleting", None)
    if found is None or not found.get("in_use"):
        return ""
    return f"The changes of {found['day']} are being read: they go once nobody reads them."


@transaction.atomic
def _begin(day: dt.date, why: str, slots: Collection[int] | None = None) -> Dropped:
    """Note what is to be done, of these slots or of all, before the first row goes."""
    low, high = _ids(day)
    found = _note(day, low, high, why, slots)
    incarnations = [incarnation for incarnation, *_ in found.incarnations]
    share = None if slots is None else incarnations
    archived.remember(low, high, share)
    kept_days.forget(incarnations, day)
    # Where nobody else has any of the day, its partition goes whole, without a row's deletion.
    if share is not None and not retention_shares.others_have_some(low, high, share):
        share = None
    spans = [
        [incarnation, first // BLOCK, last // BLOCK, [str(one) for one in days]]
        for incarnation, first, last, days in found.incarnations
        if first is not None and last is not None
    ]
    deleting = {"day": str(day), "lives": spans, "share": share}
    instance_settings.write("retention.deleting", deleting)
    return Dropped(day, sum(found.counts.values()) + found.orphans, tuple(sorted(found.counts)))


def _note(day: dt.date, low: int, high: int, why: str, slots: Collection[int] | None) -> _DayRows:
    """Tell coverage and the slots' logs of a day: of these slots' share of it, or of all."""
    listed = None if slots is None else sorted(slots)
    incarnations = rows(_INCARNATIONS, {"low": low, "high": high, "slots": listed})
    known = dict(instance_settings.read("retention.slots", {}))
    counts: dict[int, int] = {}
    orphans = 0
    for incarnation, slot_id, count, first, last, at, lsn, _ in incarnations:
        if slot_id is None:
            orphans += count
            continue
        counts[slot_id] = counts.get(slot_id, 0) + count
        if at is not None:
            slot = known.setdefault(
                str(slot_id), {"since": "", "lsn": None, "life": incarnation, "late": []}
            )
            _note_coverage(slot, incarnation, at, lsn)
            span = {"low": low, "high": high, "first": first, "last": last, "most": _MOST_LATE}
            late = reversed(rows(_LATE, {**span, "incarnation": incarnation}))
            slot["late"] += [[*one, at.isoformat() if at else None] for *one, at in late]
            slot["late"] = slot["late"][-5 * _MOST_LATE :]
    for pk in slots or ():
        if (slot := known.get(str(pk))) is not None:
            slot["through"] = max(str(day), slot.get("through", ""))
    alive = {str(pk) for pk in Slot.objects.values_list("pk", flat=True)}
    kept = {pk: slot for pk, slot in known.items() if pk in alive}
    instance_settings.write("retention.slots", kept)
    if slots is None:
        instance_settings.write("retention.last_day", str(day))
    _log(day, why, counts)
    return _DayRows([(row[0], row[3], row[4], row[7]) for row in incarnations], counts, orphans)


def _note_coverage(
    slot: dict[str, Any], incarnation: int, at: dt.datetime, lsn: str | None
) -> None:
    # Nothing is missing after the last one's moment.
    since = at.astimezone(dt.UTC) + dt.timedelta(microseconds=1)
    slot["since"] = max(since.isoformat(timespec="microseconds"), slot["since"])
    # Apart: a server's clock may have been ahead in an earlier incarnation.
    if lsn is not None and (
        slot["lsn"] is None or _place(incarnation, lsn) > _place(slot["life"], slot["lsn"])
    ):
        slot.update(life=incarnation, lsn=lsn)


def _log(day: dt.date, why: str, counts: dict[int, int]) -> None:
    for slot in Slot.objects.filter(pk__in=counts).select_related("incarnation"):
        detail = {"day": str(day), "transactions": counts[slot.pk]}
        message = f"The record of {day} was deleted {why}."
        add_line(slot, "retention", message, after_commit_seq=after_seq(slot), detail=detail)


def _place(incarnation: int, lsn: str) -> tuple[int, int]:
    """Later incarnations have higher numbers, and LSNs of their own."""
    return incarnation, int(LSN.parse(lsn))


@transaction.atomic
def _delete_some(low: int, high: int) -> bool:
    """A piece of a day's rows; False: that was the last."""
    ids = Transaction.objects.filter(pk__gte=low, pk__lt=high).order_by("pk")
    piece = list(ids.values_list("pk", flat=True)[:TRANSACTIONS_TOGETHER])
    until = piece[-1] + 1 if len(piece) == TRANSACTIONS_TOGETHER else high
    for belonging in (Transition, AbortedSubtransaction, LargeValue, Baseline):
        belonging.objects.filter(transaction_id__gte=low, transaction_id__lt=until).delete()
    Transaction.objects.filter(pk__gte=low, pk__lt=until).delete()
    return len(piece) == TRANSACTIONS_TOGETHER


def _drop_partition(day: dt.date) -> bool:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
            cursor.execute(f"DROP TABLE IF EXISTS change_{day:%Y%m%d}")
            cursor.execute("SET LOCAL lock_timeout = DEFAULT")
            instance_settings.write("retention.deleting", None)
    except OperationalError:  # somebody reads it
        waiting = {"day": str(day), "lives": [], "in_use": True}
        instance_settings.write("retention.deleting", waiting)
        return False
    log.warning("the record of %s was deleted", day)
    return True


def _ids(day: dt.date) -> tuple[int, int]:
    return first_id_of(day), first_id_of(day + dt.timedelta(days=1))
