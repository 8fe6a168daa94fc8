"""The WAL a slot may cost its source: the choice, its measure, and the drop at the budget."""

# ruff: noqa: S608 (SQL put together from constants)

import re
from dataclasses import dataclass
from typing import Any, LiteralString

from decoder.scalars import LSN
from replview.catalog.connections import Connection, Query
from replview.catalog.naming import quoted
from replview.catalog.problems import SourceProblem
from replview.catalog.server import ServerFacts
from replview.text.problem import Note

#: Where the server sets no limit of its own.
DEFAULT_BYTES = 10 * 1024**3
#: A segment of WAL: a slot always retains about so much, so a smaller budget would drop it at once.
LEAST_BYTES = 64 * 1024**2
_UNITS = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
#: What comes first; as ``Slot.Protect``.
DATABASE, RECORD = "database", "record"
# Only a logical slot of this database and plugin that retains WAL is found: not one that is lost
# (which retains nothing), not one synchronized from a primary (which its primary's slot keeps).
# ``to_jsonb`` for columns that not every version has. OFFSET: measured before anything is dropped,
# whatever the planner thinks.
_SLOT: LiteralString = """
    WITH position AS (
        SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                    ELSE pg_current_wal_lsn() END AS lsn
    ), found AS (
        SELECT s.slot_name, s.active, s.active_pid, s.restart_lsn::text AS restart_lsn,
               s.confirmed_flush_lsn::text AS confirmed_flush_lsn,
               pg_wal_lsn_diff(p.lsn, s.restart_lsn)::bigint AS retained_wal_bytes
          FROM pg_replication_slots AS s, position AS p
         WHERE s.slot_name = %s AND s.slot_type = 'logical' AND s.plugin = %s
           AND s.database = current_database() AND NOT s.temporary AND s.restart_lsn IS NOT NULL
           AND to_jsonb(s) ->> 'wal_status' IS DISTINCT FROM 'lost'
           AND to_jsonb(s) ->> 'invalidation_reason' IS NULL
           AND to_jsonb(s) ->> 'synced' IS DISTINCT FROM 'true'
        OFFSET 0
    )
"""
MEASURED = Query(
    name="budgeted",
    about="What one slot retains; anyone may read it.",
    sql=_SLOT + "SELECT * FROM found",
)
DROPPED = Query(
    name="drop_over_budget",
    about="Drops one slot if nobody reads it and it retains more than its budget.",
    sql=_SLOT
    + """
    , over_budget AS MATERIALIZED (
        SELECT * FROM found WHERE NOT active AND retained_wal_bytes >= %s
    )
    SELECT *, pg_drop_replication_slot(slot_name) FROM over_budget
    """,
)
READER_ENDED = Query(
    name="end_reader",
    about="Ends the walsender that reads one slot; needs pg_signal_backend or the same role.",
    sql="""
        SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots
         WHERE slot_name = %s AND active_pid IS NOT NULL
    """,
)


def parse_size(text: str) -> int:
    """``10GB`` as bytes, in PostgreSQL's spelling and step. Raises ``ValueError``."""
    found = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,3})?)\s*([A-Za-z]+)\s*", text, re.ASCII)
    units = {unit.lower(): size for unit, size in _UNITS.items()}
    if found is None or found[2].lower() not in units:
        raise ValueError(f"{text.strip()[:40]!r} is no size: write 500MB, 10GB or 1.5TB")
    return int(float(found[1]) * units[found[2].lower()])


def parse_budget(text: str) -> int | None:
    """A WAL budget as typed; None: ``none``. Raises ``ValueError`` with what is allowed."""
    if text.strip().lower() in ("none", "off"):
        return None
    size = parse_size(text)
    if not LEAST_BYTES <= size < 1 << 62:
        raise ValueError(
            f"a WAL budget is at least {size_words(LEAST_BYTES)}: a slot that works well retains "
            "up to a few segments of 16 MB"
        )
    return size


def size_words(size_bytes: int) -> str:
    """``10 GB``, ``1.5 GB``, ``512 MB``."""
    for unit in ("TB", "GB", "MB", "kB"):
        if size_bytes >= _UNITS[unit]:
            return f"{size_bytes / _UNITS[unit]:.1f}".removesuffix(".0") + f" {unit}"
    return f"{size_bytes} B"


def default_budget(server: ServerFacts) -> tuple[int, str]:
    """The budget of a slot for which none was named, and why so much."""
    limit = server.max_slot_wal_keep_bytes
    if limit is None or limit < 0:
        return DEFAULT_BYTES, "the server has no limit of its own (max_slot_wal_keep_size)"
    if limit // 2 < LEAST_BYTES:
        return (
            LEAST_BYTES,
            "the least there is; max_slot_wal_keep_size invalidates the slot earlier",
        )
    return limit // 2, (f"half of max_slot_wal_keep_size ({size_words(limit)}), at which the "
                        "server itself would invalidate the slot")  # fmt: skip


def budget_note(slot_name: str, budget_bytes: int | None, protect: str, why: str = "") -> Note:
    """The choice in words, with what follows from it."""
    if budget_bytes is None:
        return Note(
            "no WAL budget: replview never drops the slot, whatever it retains; only the server's "
            "max_slot_wal_keep_size (13 and later) bounds it",
            "wal_budget_bytes",
        )
    size, half = size_words(budget_bytes), size_words(budget_bytes // 2)
    reason = f" ({why})" if why else ""
    if protect == RECORD:
        return Note(
            f"WAL budget {size}{reason}, protect the record: at {half} and at {size} replview "
            "warns, and drops nothing: the source's disk can fill"
        )
    return Note(
        f"WAL budget {size}{reason}, protect the database: at {half} replview warns; at {size} it "
        f"stops its receiver and drops slot {quoted(slot_name)} on the source, which frees the "
        "WAL. The record then has a gap until the slot is created anew",
        "protect",
    )


def read_budget(text: str) -> int | None:
    """As ``parse_budget``. Raises ``SourceProblem`` where it is none."""
    try:
        return parse_budget(text)
    except ValueError as error:
        remedy = "Correct the WAL budget"
        raise SourceProblem("bad_budget", str(error), remedy, "wal_budget_bytes") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetedSlot:
    """A slot that is there and retains WAL."""

    active: bool
    active_pid: int | None
    restart_lsn: LSN
    confirmed_flush_lsn: LSN
    retained_wal_bytes: int


def read_budgeted(connection: Connection, slot_name: str, *, plugin: str) -> BudgetedSlot | None:
    """The slot now; None where there is nothing of the kind to be dropped."""
    return _first(MEASURED.rows(connection, slot_name, plugin))


def drop_over_budget(
    connection: Connection, slot_name: str, *, plugin: str, budget_bytes: int
) -> BudgetedSlot | None:
    """Drop it if nobody reads it and it still is over its budget; None: it was not dropped.

    Raises ``psycopg.Error`` (``ObjectInUse`` where a reader came in between).
    """
    return _first(DROPPED.rows(connection, slot_name, plugin, budget_bytes))


def end_reader(connection: Connection, slot_name: str) -> None:
    """End the session that reads a slot. Raises ``psycopg.Error`` where that is not allowed."""
    READER_ENDED.rows(connection, slot_name)


def _first(rows: list[dict[str, Any]]) -> BudgetedSlot | None:
    if not rows:
        return None
    row = rows[0]
    confirmed = row["confirmed_flush_lsn"]
    return BudgetedSlot(
        active=row["active"],
        active_pid=row["active_pid"],
        restart_lsn=LSN.parse(row["restart_lsn"]),
        confirmed_flush_lsn=LSN(0) if confirmed is None else LSN.parse(confirmed),
        retained_wal_bytes=row["retained_wal_bytes"],
    )
