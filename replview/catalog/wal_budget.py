"""This module parses and describes WAL budgets: how much WAL a slot may retain on its source."""

from replview.catalog.naming import quoted
from replview.catalog.problems import SourceProblem
from replview.catalog.server import ServerFacts
from replview.text.formats import bytes_words
from replview.text.problem import Note
from replview.text.sizes import parse_limit

#: The budget where the server sets no limit of its own.
DEFAULT_BYTES = 10 * 1024**3
#: The smallest budget: a slot always retains some segments of 16 MB, and would be dropped at once.
LEAST_BYTES = 64 * 1024**2
#: Values of ``Slot.Protect``: what has priority when the budget is reached.
DATABASE, RECORD = "database", "record"


def parse_budget(text: str) -> int | None:
    """Return a WAL budget in bytes; None: ``none``. Raises ``ValueError`` with what is allowed."""
    size = parse_limit(text)
    if size is not None and size < LEAST_BYTES:
        raise ValueError(
            f"a WAL budget is at least {bytes_words(LEAST_BYTES)}: a slot that works well retains "
            "up to a few segments of 16 MB"
        )
    return size


def default_budget(server: ServerFacts) -> tuple[int, str]:
    """Return the budget of a slot for which none was given, and the reason for its size."""
    limit = server.max_slot_wal_keep_bytes
    if limit is None or limit < 0:
        return DEFAULT_BYTES, "the server has no limit of its own (max_slot_wal_keep_size)"
    if limit // 2 < LEAST_BYTES:
        return (
            LEAST_BYTES,
            "the least there is; max_slot_wal_keep_size invalidates the slot earlier",
        )
    return limit // 2, (f"half of max_slot_wal_keep_size ({bytes_words(limit)}), at which the "
                        "server itself would invalidate the slot")  # fmt: skip


def budget_note(slot_name: str, budget_bytes: int | None, protect: str, why: str = "") -> Note:
    """Return a note that describes the budget and what happens when it is reached."""
    if budget_bytes is None:
        return Note(
            "no WAL budget: replview never drops the slot, however much WAL it retains; only the "
            "server's max_slot_wal_keep_size (PostgreSQL 13 and later) limits that",
            "wal_budget_bytes",
        )
    size, half = bytes_words(budget_bytes), bytes_words(budget_bytes // 2)
    reason = f" ({why})" if why else ""
    if protect == RECORD:
        return Note(
            f"WAL budget {size}{reason}, protect the record: replview warns at {half} and at "
            f"{size} of retained WAL but never drops the slot, so the source's disk can fill up"
        )
    return Note(
        f"WAL budget {size}{reason}, protect the database: replview warns at {half} of retained "
        f"WAL; at {size} it stops its receiver and drops slot {quoted(slot_name)} on the source, "
        "which frees the WAL. The record then has a gap until the slot is created again",
        "protect",
    )


def read_budget(text: str) -> int | None:
    """Return a WAL budget as ``parse_budget`` does. Raises ``SourceProblem`` if it is invalid."""
    try:
        return parse_budget(text)
    except ValueError as error:
        remedy = "Correct the WAL budget"
        raise SourceProblem("bad_budget", str(error), remedy, "wal_budget_bytes") from None
