"""The slot a plan makes: two-phase or not, kept on standbys or not, and the statement for it."""

from psycopg import sql

from replview.catalog.plan.plan import Statement
from replview.catalog.plan.slot_request import Wish, refuse
from replview.catalog.server import ServerFacts

#: The prefix of heartbeats, by which they are told from an application's messages.
HEARTBEAT_PREFIX = "replview.heartbeat"
HEARTBEAT = sql.SQL("SELECT pg_catalog.pg_logical_emit_message(true, {}, '')").format(
    sql.Literal(HEARTBEAT_PREFIX)
)
#: Seconds between heartbeats, at least and at most.
HEARTBEAT_BOUNDS = (5, 86_400)


def two_phase_of(wish: Wish, server: ServerFacts, *, failover: bool) -> tuple[bool, list[str]]:
    """Whether to make a two-phase slot, which shows transactions when they are prepared."""
    if not wish.two_phase:
        return False, ["prepared transactions appear when they are committed (--no-two-phase)"]
    # 14 knows the flag, but its pgoutput does not send prepared transactions.
    if server.version < 150000:
        return False, ["prepared transactions appear when they are committed (before 15)"]
    if server.max_prepared_transactions == 0:
        return False, ["max_prepared_transactions is 0: the slot is not made a two-phase one"]
    if failover and server.major < 18:
        return False, [
            "prepared transactions appear when they are committed: 17 has no slot that is both a "
            "two-phase one and kept for a failover"
        ]
    return True, []


def failover_of(wish: Wish, server: ServerFacts) -> tuple[bool, list[str]]:
    """Whether the slot is to survive a failover; of the versions that can, what it takes."""
    if not wish.failover:
        if server.major < 17 or server.in_recovery:
            return False, []
        return False, [
            "the slot does not survive a failover: --failover has standbys with "
            "sync_replication_slots keep it"
        ]
    if server.major < 17:
        raise refuse(
            "no_failover",
            f"slots survive a failover from PostgreSQL 17 on, this is {server.major}",
            "Leave --failover out",
        )
    if server.in_recovery:
        raise refuse(
            "no_failover",
            "a slot made on a standby cannot be one that survives a failover",
            "Leave --failover out, or give the DSN of the primary",
        )
    notes = [
        "standbys with sync_replication_slots, a primary_slot_name, hot_standby_feedback and a "
        "database in primary_conninfo keep a copy of the slot; the rest keep none"
    ]
    if not str(server.failover_settings.get("synchronized_standby_slots") or "").strip():
        notes.append(
            "synchronized_standby_slots is empty: the record can then hold transactions that a "
            "promoted standby never had. Name the standbys' slots there"
        )
    return True, notes


def slot_step(name: str, server: ServerFacts, *, two_phase: bool, failover: bool) -> Statement:
    """pg_create_logical_replication_slot()."""
    arguments = sql.SQL("{}, 'pgoutput', false").format(sql.Literal(name))
    if server.version >= 140000:
        arguments += sql.SQL(", {}").format(sql.Literal(two_phase))
    if failover:
        arguments += sql.SQL(", true")
    limit = server.max_slot_wal_keep_bytes
    megabytes = None if limit is None or limit < 0 else limit // 1024**2
    bound = " until the disk is full" if megabytes is None else f", up to {megabytes:,} MB"
    create = sql.SQL("SELECT pg_create_logical_replication_slot({})")
    drop = sql.SQL("SELECT pg_drop_replication_slot({})")
    return Statement(
        sql=create.format(arguments).as_string(None),
        undo=drop.format(sql.Literal(name)).as_string(None),
        needs="REPLICATION (or a role that grants it)",
        costs="waits for all open transactions; while nobody reads the slot, the server keeps WAL"
        + bound,
        kind="slot",
        name=name,
    )


def heartbeat_notes(wish: Wish, server: ServerFacts) -> list[str]:
    """What a heartbeat runs, and why it is seldom needed. Raises ``SourceProblem`` to refuse."""
    if wish.heartbeat_seconds is None:
        return []
    least, most = HEARTBEAT_BOUNDS
    if not least <= wish.heartbeat_seconds <= most:
        raise refuse(
            "bad_heartbeat",
            f"a heartbeat is written every {least} to {most:,} seconds",
            "Correct --heartbeat",
        )
    if server.in_recovery:
        raise refuse(
            "standby",
            "this server is a standby: nothing can be written there, so no heartbeat either",
            "Leave --heartbeat out",
        )
    return [heartbeat_line(wish.heartbeat_seconds)]


def heartbeat_line(seconds: int) -> str:
    """The heartbeat in words, with its statement."""
    return (
        f"heartbeat: where nothing was committed for {seconds} s, replview runs "
        f"{HEARTBEAT.as_string(None)} (needs no right; writes some 100 bytes of WAL, changes no "
        "table; it is in the record as a message)"
    )
