"""Measure the store's size and growth, and enforce its budget.

Settings: ``store.budget_bytes`` is the most that the store may occupy; without it the disk is the
limit. ``store.protect`` decides what happens at the budget: ``database`` (receivers continue, so
that no source retains WAL, and the oldest days are deleted) or ``record`` (receivers stop, and
nothing is deleted). ``store.stopped_slots`` are the slots stopped for that, to be started again.
``store.stuck`` is a sentence that says why no room can be made.
"""

import datetime as dt
import time
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from replview.store import instance_settings
from replview.store.django_session import rows
from replview.store.models import Slot
from replview.store.retention import day_sizes, tidy
from replview.store.retention import deletion as retention
from replview.store.slot_control import NO_PROBLEM
from replview.store.slot_log import add_line

#: Problem code of a slot that was stopped because the store reached its budget.
STOPPED = "store_budget"
#: Share of the budget below which receivers start again.
_ROOM_AGAIN = 0.95
#: Most complete days that the growth is computed from.
_GROWTH_DAYS = 7
#: Most seconds that one run deletes days.
_ROOM_SECONDS = 20.0

_TABLES = """
    SELECT coalesce(i.inhparent, c.oid)::regclass::text, sum(pg_total_relation_size(c.oid))::bigint
      FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
     WHERE c.relkind IN ('r', 'm') AND c.relnamespace = 'public'::regnamespace
     GROUP BY 1 ORDER BY 2 DESC LIMIT %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSize:
    """The size of the store; None is unknown, or not set."""

    size_bytes: int
    budget_bytes: int | None
    #: Value of ``Slot.Protect``.
    protect: str
    #: Tables with their indexes and partitions, the largest first.
    tables: tuple[tuple[str, int], ...]
    #: Days of changes with their size, the oldest first.
    days: tuple[tuple[dt.date, int], ...]
    #: Mean size of the last complete days of changes; None before the first.
    growth_bytes_per_day: float | None
    #: The reason that no room can be made; empty if there is none.
    stuck: str = ""

    @property
    def share(self) -> float | None:
        """Return the share of the budget that is used; None without a budget."""
        return None if not self.budget_bytes else self.size_bytes / self.budget_bytes

    @property
    def days_left(self) -> float | None:
        """Return in how many days the budget is reached at this rate; None: not foreseeable."""
        if not self.budget_bytes or not self.growth_bytes_per_day:
            return None
        return max(self.budget_bytes - self.size_bytes, 0) / self.growth_bytes_per_day


def measure() -> StoreSize:
    """Measure the store with three cheap queries to its catalog."""
    budget_bytes, protect = chosen()
    tables, days = rows(_TABLES, [12]), day_sizes.partitions()
    today = timezone.now().date()
    # Partitions exist for coming days already, and today's is incomplete.
    whole = [bytes_ for day, bytes_ in days if day < today][-_GROWTH_DAYS:]
    return StoreSize(
        size_bytes=size_now(),
        budget_bytes=budget_bytes,
        protect=protect,
        tables=tuple((str(name), size) for name, size in tables),
        days=tuple(entry for entry in days if entry[0] <= today),
        growth_bytes_per_day=sum(whole) / len(whole) if whole else None,
        stuck=str(instance_settings.read("store.stuck", "")),
    )


def size_now() -> int:
    """Return the size of the store's database in bytes."""
    return int(rows("SELECT pg_database_size(current_database())")[0][0])


def chosen() -> tuple[int | None, str]:
    """Return the budget in bytes (None for none) and what is protected when it is reached."""
    budget = instance_settings.read("store.budget_bytes", None)
    usable = isinstance(budget, int) and not isinstance(budget, bool) and budget > 0
    protect = instance_settings.read("store.protect", Slot.Protect.DATABASE.value)
    known = protect in Slot.Protect.values
    return (budget if usable else None), (protect if known else Slot.Protect.DATABASE.value)


def order_of_sacrifice(budget_bytes: int | None, protect: str) -> list[str]:
    """Return sentences that say what is given up first when the store is full."""
    if budget_bytes is None:
        return [
            "No budget is set: the store grows until its disk is full. Then nothing is stored or "
            "confirmed, and every source retains WAL.",
            "Each slot's own WAL budget then decides what happens on its source.",
        ]
    if protect == Slot.Protect.RECORD:
        return [
            "When the store reaches its budget, all receivers stop; nothing stored is deleted.",
            "Each source then retains WAL for its slot, up to the slot's WAL budget.",
            "When a slot reaches its WAL budget, it is dropped and its record has a gap if it "
            "protects the database; it still retains WAL if it protects the record.",
            "Receivers start again below 95 % of the budget, or when the budget is raised.",
        ]
    return [
        "When the store reaches its budget, the oldest day of all slots' records is deleted, then "
        "the next, until there is room. Receivers continue, so that no source retains WAL.",
        "With a day, its transactions, their changes and the baselines read on it are deleted. The "
        "slots' logs and every answer about that time say so.",
        "Today and yesterday are never deleted, nor a day with an open or prepared transaction, "
        "nor any day after it. The store then grows past its budget, which is shown here and by "
        "the alert.",
        "If the disk still becomes full, nothing more is stored, and each slot's own WAL budget "
        "decides what happens on its source.",
    ]


#: SQL condition that is true when there may be something to enforce.
ANYTHING_CHOSEN = """
    EXISTS (SELECT FROM setting WHERE name IN ('store.budget_bytes', 'store.stopped_slots',
            'store.stuck', 'retention.deleting'))
"""


def enforce() -> None:
    """Delete the oldest days at the budget or, to protect the record, stop the receivers.

    Stopped receivers are started again once there is room.
    """
    budget_bytes, protect = chosen()
    stopped = _stopped()
    if budget_bytes is None or protect != Slot.Protect.RECORD:
        if stopped:
            _go_on(stopped)
        _make_room(budget_bytes)
        return
    _make_room(None)
    size = size_now()
    if size >= budget_bytes:
        _stop_all(stopped, size, budget_bytes)
    elif stopped and size < _ROOM_AGAIN * budget_bytes:
        _go_on(stopped)


def _make_room(budget_bytes: int | None) -> None:
    """Delete whole days until the store is below its budget; None only finishes a day in progress.

    Do nothing while another process tidies the store.
    """
    over = budget_bytes is not None and size_now() >= budget_bytes
    stuck = ""
    if over or retention.is_under_way():
        deadline = time.monotonic() + _ROOM_SECONDS
        with tidy.alone() as mine:
            if not mine:
                return
            done = retention.finish(deadline)
            while done and budget_bytes is not None and size_now() >= budget_bytes:
                day = retention.oldest_day()
                stuck = retention.why_kept(day)
                if day is None or stuck or time.monotonic() > deadline:
                    break
                why = f"because the store reached its budget of {_words(budget_bytes)}"
                done = retention.drop_day(day, why=why, deadline=deadline) is not None
            stuck = stuck or (retention.what_waits() if over else "")
    if stuck != instance_settings.read("store.stuck", ""):
        instance_settings.write("store.stuck", stuck or None)


def _stop_all(stopped: list[int], size: int, budget_bytes: int) -> None:
    """Stop the running receivers, and restore the reason on slots that were already stopped."""
    problem = {
        "problem_code": STOPPED,
        "problem_cause": "the store reached its budget and protects the record: nothing is "
        "deleted, and nothing more is received",
        "problem_remedy": "Raise the budget (replview store --budget) or remove slots; receiving "
        "then continues automatically",
    }
    with transaction.atomic():
        running = Slot.objects.filter(desired=Slot.Desired.RUNNING, temporary=False)
        for slot in running.select_for_update():
            message = "Receiving stopped: the store reached its budget and protects the record."
            detail = {"store_bytes": size, "budget_bytes": budget_bytes}
            add_line(slot, "budget", message, detail=detail)
            stopped.append(slot.pk)
        ids = sorted(set(stopped))
        instance_settings.write("store.stopped_slots", ids)
        named = Slot.objects.filter(pk__in=ids, desired__in=["running", "stopped"])
        named.update(desired=Slot.Desired.STOPPED, **problem)


def _go_on(stopped: list[int]) -> None:
    with transaction.atomic():
        paused = Slot.objects.filter(
            pk__in=stopped, desired=Slot.Desired.STOPPED, problem_code__in=[STOPPED, ""]
        )
        paused.update(desired=Slot.Desired.RUNNING, **NO_PROBLEM)
        instance_settings.write("store.stopped_slots", None)


def _stopped() -> list[int]:
    ids = instance_settings.read("store.stopped_slots", [])
    return [number for number in ids if isinstance(number, int)] if isinstance(ids, list) else []


def _words(size: int) -> str:
    """Return a size in words, such as ``50 GB``."""
    for unit, power in (("TB", 40), ("GB", 30), ("MB", 20)):
        if size >= 1 << power:
            return f"{size / (1 << power):.4g} {unit}"
    return f"{size} bytes"
