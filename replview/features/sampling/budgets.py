"""Warn of slots that approach their WAL budget, and drop slots that reach it.

Dropping protects the source's disk. A sample alone does not decide: the source measures twice with
a pause in one session, and once more in the statement that drops the slot. A slot that cannot be
measured is not dropped. A receiver that is catching up does not prevent the drop, since the budget
is a limit; the pause gives it time to confirm.
"""

import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

from replview.catalog.budgeted_slots import (
    BudgetedSlot,
    drop_over_budget,
    end_reader,
    read_budgeted,
)
from replview.catalog.connections import Connection, writing
from replview.catalog.problems import SourceProblem
from replview.catalog.server import read_server_facts
from replview.store import slot_budget, slot_control
from replview.store.connecting import orm_connection
from replview.store.dsn import UNUSABLE, full_conninfo
from replview.store.models import Slot, WatchedSlot
from replview.text.formats import bytes_words

log = logging.getLogger(__name__)

#: Share of the budget from which on a slot is warned of, and below which the warning ends.
_HALF, _BELOW_HALF = 0.5, 0.4
#: Seconds between the two measurements.
_PAUSE_SECONDS = 1.0
#: Seconds that a receiver has to confirm and release its slot before it is terminated.
RELEASE_SECONDS = 6.0
#: Time limit for all statements on one source.
_DEADLINE_SECONDS = 30.0
_THREADS = 8

_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="budgets")
_lock = threading.Lock()
#: Ids of slots that are being checked.
_being_checked: set[int] = set()


def enforce() -> list["Future[None]"]:
    """Warn at half of a budget, and check slots over budget; return a future for each check."""
    futures = []
    for watched in slot_budget.watched_with_budget():
        slot = watched.slot
        assert slot is not None
        with _lock:
            if slot.pk in _being_checked:
                continue
            if _must_be_checked(watched, slot):
                _being_checked.add(slot.pk)
                futures.append(_pool.submit(_check_slot, slot))
                continue
        if not _was_interrupted(slot):
            continue
        if watched.gone_at is not None:  # an interrupted run has not logged the drop
            slot_budget.record_dropped(slot, _cause(slot, None), _remedy(slot), {})
        else:
            slot_budget.call_off(slot)
    return futures


def _must_be_checked(watched: WatchedSlot, slot: Slot) -> bool:
    """Warn if needed; return whether the last sample is over a budget that drops the slot."""
    retained = watched.facts.get("retained_wal_bytes")
    if watched.gone_at is not None or retained is None or slot.wal_budget_bytes is None:
        return False
    _warn(slot, retained)
    return slot.protect == Slot.Protect.DATABASE and bool(retained >= slot.wal_budget_bytes)


def _was_interrupted(slot: Slot) -> bool:
    """Return whether a worker stopped the slot to drop it, and ended before it finished."""
    stopped = slot.desired == Slot.Desired.STOPPED
    return stopped and slot.problem_code == slot_budget.DROPPED and not slot.problem_remedy


def _warn(slot: Slot, retained_bytes: int) -> None:
    """Log that half of the budget was reached, or is no longer; alert rules notify of it."""
    share = retained_bytes / (slot.wal_budget_bytes or 1)
    if _BELOW_HALF <= share < _HALF:
        return
    warned = slot_budget.warned_since_below_half(slot)
    if (share >= _HALF) == warned:
        return
    sizes = f"{bytes_words(retained_bytes)} of its WAL budget of "
    sizes += bytes_words(slot.wal_budget_bytes or 0)
    if share < _HALF:
        text = f"Retains {sizes}: well below half again."
    elif slot.protect == Slot.Protect.DATABASE:
        text = f"Retains {sizes}: at the limit replview drops the slot, and history has a gap."
    else:
        text = f"Retains {sizes}: nothing is dropped (protect the record); watch the source's disk."
    slot_budget.log_budget(slot, text, warned=share >= _HALF, retained_wal_bytes=retained_bytes)


def _check_slot(slot: Slot) -> None:
    """Check and enforce one slot's budget, in a thread, so that a slow source delays no other."""
    try:
        with orm_connection():
            conninfo = full_conninfo(slot.source)
            with writing(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
                _enforce_on(connection, slot)
    except (SourceProblem, *UNUSABLE) as error:
        # If the slot was dropped, the next run notices. Log no text: it may name a host.
        log.warning("budget of slot %s: not enforced (%s)", slot.pk, type(error).__name__)
    except Exception:
        log.exception("enforcing the budget of slot %s failed", slot.pk, extra=_log_fields(slot))
    finally:
        with _lock:
            _being_checked.discard(slot.pk)


def _enforce_on(connection: Connection, slot: Slot) -> None:
    """Measure twice, stop the receiver, and drop the slot if it is still over its budget."""
    first = _measure_over_budget(connection, slot)
    if first is None or not _is_recorded_slot(connection, slot, first):
        return
    time.sleep(_PAUSE_SECONDS)
    second = _measure_over_budget(connection, slot)
    if second is None:
        return
    was_running = slot.desired == Slot.Desired.RUNNING or _was_interrupted(slot)
    cause = _cause(slot, second.retained_wal_bytes)
    if not slot_budget.ask_to_stop(slot, cause):
        return
    dropped = None
    if _wait_for_release(connection, slot) and slot_budget.still_chosen(slot):
        budget_bytes = slot.wal_budget_bytes or 0
        dropped = drop_over_budget(
            connection, slot.name, plugin=slot.plugin, budget_bytes=budget_bytes
        )
    if dropped is not None:
        _log_dropped(slot, first, dropped)
    elif was_running:
        # The stop freed WAL, or the settings were changed, so let the receiver run again.
        slot_budget.call_off(slot)
    else:
        slot_control.forget_problem(slot)


def _measure_over_budget(connection: Connection, slot: Slot) -> BudgetedSlot | None:
    """Return the slot's measurement if it is over budget, else None."""
    measured = read_budgeted(connection, slot.name, plugin=slot.plugin)
    is_over = measured is not None and measured.retained_wal_bytes >= (slot.wal_budget_bytes or 0)
    return measured if is_over else None


def _is_recorded_slot(connection: Connection, slot: Slot, measured: BudgetedSlot) -> bool:
    """Return whether this is the slot in the record, not a namesake on another cluster.

    If the system identifier is unknown, the slot's position must not be past our checkpoint.
    """
    incarnation = slot.incarnation
    recorded_identifier = (
        incarnation.system_identifier if incarnation is not None else slot.source.system_identifier
    )
    identifier = read_server_facts(connection).system_identifier
    if identifier is None or recorded_identifier in (None, "unknown"):
        slot.refresh_from_db(fields=["checkpoint_lsn"])
        return (
            slot.checkpoint_lsn is not None and measured.confirmed_flush_lsn <= slot.checkpoint_lsn
        )
    return identifier == recorded_identifier


def _wait_for_release(connection: Connection, slot: Slot) -> bool:
    """Wait until the receiver has confirmed and released the slot; return whether it has.

    A receiver that takes too long is terminated on the source.
    """
    deadline, terminated = time.monotonic() + RELEASE_SECONDS, False
    while (measured := read_budgeted(connection, slot.name, plugin=slot.plugin)) is not None:
        slot.refresh_from_db(fields=["lease_owner"])
        late = time.monotonic() > deadline
        # Do not wait for ever for a dead owner's lease: without its slot it cannot store.
        if not measured.active and (late or not slot.lease_owner):
            return True
        if late and not terminated:
            end_reader(connection, slot.name)
            deadline, terminated = time.monotonic() + RELEASE_SECONDS, True
        elif late:
            return False
        time.sleep(0.2)
    return False


def _log_dropped(slot: Slot, first: BudgetedSlot, dropped: BudgetedSlot) -> None:
    cause = _cause(slot, dropped.retained_wal_bytes)
    if dropped.confirmed_flush_lsn > first.confirmed_flush_lsn:
        cause += " (the receiver was catching up)"
    detail = {
        "retained_wal_bytes": dropped.retained_wal_bytes,
        "restart_lsn": str(dropped.restart_lsn),
        "confirmed_flush_lsn": str(dropped.confirmed_flush_lsn),
    }
    slot_budget.record_dropped(slot, cause, _remedy(slot), detail)
    log.warning(
        "slot %s: dropped on its source at its WAL budget", slot.pk, extra=_log_fields(slot)
    )


def _cause(slot: Slot, retained_bytes: int | None) -> str:
    budget = "unknown" if slot.wal_budget_bytes is None else bytes_words(slot.wal_budget_bytes)
    retained = "too much" if retained_bytes is None else bytes_words(retained_bytes)
    return (
        f"replview dropped the slot on the source to protect its disk: it retained {retained} of "
        f"WAL, its budget is {budget}"
    )


def _remedy(slot: Slot) -> str:
    return (
        f"replview slot start {slot.source.name} {slot.name} creates it again (history has a gap "
        "until then); replview slot set gives it a larger budget"
    )


def _log_fields(slot: Slot) -> dict[str, object]:
    return {"slot_id": slot.pk, "slot": slot.name, "source": slot.source.name}
