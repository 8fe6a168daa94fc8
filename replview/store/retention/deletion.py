"""Making room in the store: whole days of the record are deleted, the oldest first.

A day is the transactions first seen on it (``store.write.partitions``). It goes with all that
belongs to it: transactions, their transitions, subtransactions and large values, the baselines read
in them, their share of the sums (``store.sums.activity``), and at last its partition of changes.
What is left is a record that begins later; ``retention.slots`` tells coverage of each slot

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
an archive none before all of it is there and was counted (``store.retention.archived``).

Where slots keep for different times (``store.retention.policy``), a day goes in shares: a slot's
rows alone, in pieces (``store.retention.shares``), and the partition with the last of them. What is
said of a day holds of a share for its slots; ``through`` is then the last day that a slot has none
of.
"""

import datetime as dt
import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError, connection, transaction

from replview.store import instance_settings
from replview.store.models import (
    AbortedSubtransaction,
    Baseline,
    LargeValue,
    Transaction,
    Transition,
)
from replview.store.read.days import first_id_of
from replview.store.read.history_places import BLOCK
from replview.store.retention import archived
from replview.store.retention import day_sizes as kept_days
from replview.store.retention import notices as retention_telling
from replview.store.retention import shares as retention_shares
from replview.store.sums.activity import recount

log = logging.getLogger(__name__)

BY = "replview"
#: Transactions of one piece.
_TOGETHER = 2000
#: Dropping a partition locks its parent: who writes waits for us no longer than that. More than
#: deadlock_timeout (1 s by default), after which an autovacuum of the partition gives way.
_LOCK_TIMEOUT = "1500ms"
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
    WHERE t.id >= %(low)s AND t.id < %(high)s
      AND t.state IN ('receiving', 'streaming', 'prepared', 'copying')
      AND (%(slots)s::bigint[] IS NULL OR s.id = ANY (%(slots)s))
    ORDER BY t.id LIMIT 1
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


def drop_share(
    day: dt.date, slots: Collection[int], *, why: str, deadline: float | None = None
) -> Dropped | None:
    """Delete what these slots have of a day, and the day's partition if nobody else has any of it.
    None: as ``drop_day``; ``why_share_kept`` tells why.
    """
    if is_under_way() or why_share_kept(day, slots):
        return None
    dropped = _begin(day, why, slots)
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
    open_one = _open_in(day)
    if not open_one:
        return archived.why_wanted(day, *_ids(day))
    return (
        f"{day} is the oldest day, and {open_one}: no day goes before its transactions have ended."
    )


def why_share_kept(day: dt.date, slots: Collection[int]) -> str:
    """Why what these slots have of a day may not be deleted now, in a sentence; empty: it may."""
    days = _rows(_DAYS)
    if not days or day > days[0][1] - dt.timedelta(days=_DAYS_KEPT):
        return "Today and yesterday are never deleted."
    if open_one := _open_in(day, slots):
        return f"Of {day} {open_one}: no day goes before its transactions have ended."
    return archived.why_wanted(day, *_ids(day), slots=slots)


def _open_in(day: dt.date, slots: Collection[int] | None = None) -> str:
    """The first transaction of a day that has not ended, in words; empty: all have."""
    low, high = _ids(day)
    found = _rows(_OPEN, {"low": low, "high": high, "slots": _listed(slots)})
    if not found:
        return ""
    state, gid, xid, slot = found[0]
    name = f" {gid}" if gid else f" {xid}" if xid else ""
    of_slot = slot or "a removed slot"
    return f"transaction{name} of {of_slot}, first seen on it, is still {state}"


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
    if found.get("share") is not None:
        if not retention_shares.delete(*_ids(day), found, deadline):
            return False
        found = instance_settings.read("retention.deleting", found)
    else:
        while _delete_some(*_ids(day)):
            if deadline is not None and time.monotonic() > deadline:
                return False
    while found["lives"]:
        life, first, last, days = found["lives"][0]
        recount(life, first, last, [dt.date.fromisoformat(one) for one in days])
        # Once, however often the partition is in use after that.
        found = {**found, "lives": found["lives"][1:]}
        instance_settings.write("retention.deleting", found, BY)
    if found.get("share") is not None and retention_shares.others_have_some(*_ids(day)):
        instance_settings.write("retention.deleting", None, BY)
        return True
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
def _begin(day: dt.date, why: str, slots: Collection[int] | None = None) -> Dropped:
    """Tell coverage and the logs before the first row goes, and what is to be done; of these slots
    alone, or of all.
    """
    low, high = _ids(day)
    told = retention_telling.tell(day, low, high, why, slots)
    lives = [life for life, *_ in told.lives]
    share = None if slots is None else lives
    archived.remember(low, high, share)
    kept_days.forget(lives, day)
    # Where nobody else has any of the day, its partition goes whole, without a row's deletion.
    if share is not None and not retention_shares.others_have_some(low, high, share):
        share = None
    spans = [
        [life, first // BLOCK, last // BLOCK, [str(one) for one in days]]
        for life, first, last, days in told.lives
        if first is not None and last is not None
    ]
    deleting = {"day": str(day), "lives": spans, "share": share}
    instance_settings.write("retention.deleting", deleting, BY)
    return Dropped(day, sum(told.counts.values()) + told.orphans, tuple(sorted(told.counts)))


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
    log.warning("the record of %s was deleted", day)
    return True


def _listed(slots: Collection[int] | None) -> list[int] | None:
    return None if slots is None else sorted(slots)


def _ids(day: dt.date) -> tuple[int, int]:
    return first_id_of(day), first_id_of(day + dt.timedelta(days=1))


def _rows(sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
