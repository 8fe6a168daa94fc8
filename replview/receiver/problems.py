"""Name what went wrong with a slot or a baseline, with cause, remedy, and the pause before a retry.

The SQL in remedies is shown to people and never run from here.
"""

import traceback
from collections.abc import Sequence

import psycopg
from django.conf import settings
from psycopg import errors

from decoder.reader import ProtocolError
from replview.catalog.naming import quoted
from replview.catalog.problems import TEXTS_WITHOUT_VALUES, SourceProblem, explain
from replview.receiver.storing.store_batch import StoreRefused
from replview.receiver.storing.table_plans import TooManyVersions

_BY_ITSELF = "Nothing to do: replview reconnects automatically"
_SET_LOGICAL = "ALTER SYSTEM SET wal_level = 'logical', then restart the server"
_ASK_AGAIN = "Request the baseline again"
_CHECK_PROXY = (
    "Check that no faulty proxy is between replview and the server, and that the address always "
    "leads to the same server; nothing of this stream was stored or confirmed"
)

#: Code → cause and remedy, as formats for the facts of ``trouble()``.
TROUBLES = {
    "restarting": ("the server is stopping or restarting", _BY_ITSELF),
    # The server, or a pooler in front of it, closed the connection.
    "cut_off": (
        "the server ended our connection (a restart, pg_terminate_backend, or the slot was "
        "invalidated)",
        _BY_ITSELF,
    ),
    # The server did not answer a request for a keepalive.
    "silent": (
        "the server stopped answering (its host or the network is down)",
        _BY_ITSELF,
    ),
    "beyond_wal": (
        "the stream reported position {told}, but the server's WAL ended at {end} when it was last "
        "read",
        _CHECK_PROXY,
    ),
    "went_back": (
        "the stream sent a transaction that committed at {told} after one that ended at {end}, "
        "although transactions are sent in the order of their commits",
        _CHECK_PROXY,
    ),
    # libpq buffers a message until it is complete.
    "endless_message": (
        "the server sent a message of more than 1 GiB, which PostgreSQL never does",
        _CHECK_PROXY,
    ),
    # The address now leads to another server, or to another timeline.
    "other_server": (
        "the connection leads to another server than before (a failover, or a pooler that was "
        "pointed elsewhere)",
        "Nothing to do: replview checks the slot there and continues",
    ),
    "store_full": (
        "the disk of replview's store is full",
        "Free space on that disk or enlarge it: receiving then continues, and no change is lost; "
        "until then the source retains the WAL",
    ),
    "internal": (
        "internal error in replview ({kind})",
        "See the worker's log, and please report it; nothing was lost or confirmed",
    ),
    # The text of such an error may quote a value, so only its SQLSTATE is shown.
    "stream_failed": (
        "the server could not send the stream (SQLSTATE {sqlstate})",
        "See the server's log, which names the cause; replview tries again",
    ),
    # The newest minor releases have a list of allowed output plugins (output_plugin_libraries).
    "plugin_refused": (
        "the server does not allow the output plugin of the slot {slot}",
        "Add it to the list: ALTER SYSTEM SET output_plugin_libraries = pgoutput, …, then SELECT "
        "pg_reload_conf()",
    ),
    "plugin_missing": (
        "the output plugin of the slot {slot} is not installed on the server",
        "Install it there (Debian: postgresql-<version>-wal2json; test_decoding comes with "
        "postgresql-contrib)",
    ),
    "binary_refused": (
        "a column's type has no binary form, which ends a binary stream at this change",
        "Receive the slot as text: remove binary from its options",
    ),
    "publication_missing": (
        "a publication that the slot reads ({names}) does not exist at the stream's position in "
        "the WAL",
        "On PostgreSQL 16 and earlier re-creating it does not help for changes made while it was "
        "missing: remove the slot here and add it again",
    ),
    # Each version of a table is stored; many mean constant ALTER TABLE, or a rogue server.
    "too_many_versions": (
        "the table {table} was altered so often that it has more than {versions:,} versions, the "
        "limit for a table",
        "Find out what alters the table, and drop it from the publication or raise "
        "REPLVIEW_VERSIONS_PER_TABLE; nothing was lost or confirmed",
    ),
    "wal_level": ("the server's wal_level is {level}", _SET_LOGICAL),
    "not_ready": (
        "the server cannot start the slot {slot} in its present state",
        "See its log; replview tries again",
    ),
    # Only one session at a time can read a slot.
    "slot_in_use": (
        "another session is reading the slot {slot}",
        "Stop the other reader, or end it: SELECT pg_terminate_backend(active_pid) FROM "
        "pg_replication_slots WHERE slot_name = '{slot}'",
    ),
    "slot_missing": (
        "the slot {slot} is gone from the source",
        "Remove it here (replview slot remove) and add it again; the changes in between are lost",
    ),
    # The slot's position is beyond the one that was confirmed from here.
    "slot_consumed": (
        "another consumer advanced the slot {slot} beyond what was stored here",
        "A slot has one consumer: find the other one (a script with pg_logical_slot_get_changes, "
        "another replview) and stop it, or give it a slot of its own",
    ),
    # The slot was invalidated: the WAL it needs is gone.
    "slot_lost": (
        "the slot {slot} is lost{why}: the server has removed WAL it needed",
        "Run SELECT pg_drop_replication_slot('{slot}'), remove it here and add it again; the "
        "changes in between are lost",
    ),
    "too_few_slots": (
        "all of the server's {setting} are in use",
        "Free unused ones, or ALTER SYSTEM SET {setting} = <more> and restart the server",
    ),
    # The problems from here on keep a baseline from being read.
    "standby": (
        "the source is a standby, whose snapshots have no WAL position",
        "Add the primary as a source, create a slot there, and take the baseline of that slot",
    ),
    # Another plugin's stream has other columns and texts than a baseline would have.
    "other_plugin": (
        "the output plugin of the slot is {plugin}, and a baseline needs pgoutput",
        "Add a slot of pgoutput for this source",
    ),
    # The source's positions do not compare with those of the record.
    "other_cluster": (
        "the source is now another cluster or on another timeline than the slot's record",
        "Wait until the slot is received from it, which starts a new incarnation; then request the "
        "baseline again",
    ),
    "incarnation_ended": (
        "a new incarnation of the slot began while the table was read, and LSNs of two "
        "incarnations cannot be compared",
        _ASK_AGAIN,
    ),
    "no_such_table": ("table {table} does not exist any more", "Name another table"),
    # The slot would not receive later changes of the table.
    "not_published": ("{table} is not published to this slot (publications: {names})", "{remedy}"),
    "locked": (
        "{table} is locked by another session (ALTER TABLE, TRUNCATE, VACUUM FULL …)",
        f"{_ASK_AGAIN} when the lock is released",
    ),
    # The snapshot cannot see the table's rows.
    "moved": ("{table} was truncated, rewritten or repartitioned during the read", _ASK_AGAIN),
    # Logical decoding needs no SELECT privilege, a baseline does.
    "may_not_read": (
        "role {role} has no privilege to read {table}, and a baseline reads its rows",
        "GRANT USAGE ON SCHEMA {quoted_schema} TO {quoted_role}; "
        "GRANT SELECT ON {quoted_table} TO {quoted_role}",
    ),
    "row_security": (
        "row-level security on {table} may hide some of its rows from role {role}",
        "ALTER ROLE {quoted_role} BYPASSRLS",
    ),
    # Creating a slot waits for all transactions that are running.
    "waited": (
        "transactions that were open on the server (running, or prepared) did not end within "
        "{span}, and a consistent snapshot waits for them",
        "Request the baseline again when they have ended; to list them: SELECT pid, xact_start, "
        "state FROM pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY xact_start; "
        "SELECT gid, prepared FROM pg_prepared_xacts ORDER BY prepared",
    ),
    # Changes have 32-bit numbers within a transaction.
    "too_many_rows": (
        "the table has more than 2,147,483,647 rows, which one baseline cannot hold",
        "Take baselines of its partitions, or narrow the publication by a row filter",
    ),
}
#: Problems that only a person can solve: a retry follows every 30 seconds.
_LASTING = {
    "slot_lost",
    "slot_missing",
    "slot_other_plugin",
    "slot_other_database",
    "publication_missing",
    "too_many_versions",
    "wal_level",
    "unsupported",
    "bad_dsn",
    "binary_refused",
    "plugin_refused",
    "plugin_missing",
}
#: Ordinary interruptions: the first retry follows at once, the next after growing pauses.
_PASSING = {"restarting", "cut_off", "slot_in_use", "starting_up", "other_server", "silent"}


def trouble(code: str, **facts: object) -> SourceProblem:
    """Return the problem of this code, with ``facts`` filled into its sentences.

    Facts are names, positions and versions, never a value of a row.
    """
    cause, remedy = TROUBLES[code]
    return SourceProblem(code, cause.format(**facts), remedy.format(**facts))


class StreamEnded(Exception):
    """The server ended the stream without an error: it is stopping. Connect again."""


def name_trouble(
    error: Exception, *, conninfo: str, slot: str, publications: list[str]
) -> SourceProblem:
    """Return the problem behind the exception that ended a session, or kept it from starting."""
    if isinstance(error, SourceProblem):
        return error
    if isinstance(error, StreamEnded):
        return trouble("restarting")
    if isinstance(error, ProtocolError):
        return SourceProblem(
            "protocol",
            f"the server sent what the protocol does not allow ({error})",
            "Please report it with the server's version; nothing was lost or confirmed",
        )
    if isinstance(error, TooManyVersions):
        return trouble("too_many_versions", table=error, versions=settings.VERSIONS_PER_TABLE)
    if isinstance(error, psycopg.Error):
        return _by_sqlstate(error, slot, publications) or explain(error, conninfo)
    if isinstance(error, StoreRefused):
        if error.sqlstate == "53100":
            return trouble("store_full")
        return SourceProblem(
            "store_refused",
            f"the store refused what was received ({error})",
            "See the log of the store's PostgreSQL; nothing was lost or confirmed",
        )
    return trouble("internal", kind=type(error).__name__)


def where_it_failed(error: Exception) -> str:
    """Return the traceback for the log, without the error's own text, which may quote a value."""
    where = "".join(traceback.format_tb(error.__traceback__)[-6:])
    return f"{type(error).__name__} in\n{where}"


def pause_seconds(code: str, attempt: int) -> float:
    """Return the seconds to wait before attempt number ``attempt`` (from 1) after this problem."""
    if code in _LASTING:
        return 30.0
    if code in _PASSING:
        return min(0.2 * 2.0 ** (attempt - 1), 5.0)
    return min(2.0 ** (attempt - 1), 30.0)


def _by_sqlstate(error: psycopg.Error, slot: str, publications: list[str]) -> SourceProblem | None:
    text = str(error)
    if isinstance(error, errors.ObjectInUse):
        return trouble("slot_in_use", slot=slot)
    if isinstance(error, errors.UndefinedObject) and "publication" in text:
        return trouble("publication_missing", names=", ".join(publications))
    if isinstance(error, errors.UndefinedObject) and "replication slot" in text:
        return trouble("slot_missing", slot=slot)
    if isinstance(error, errors.ObjectNotInPrerequisiteState):
        return _prerequisite(text, slot)
    if isinstance(error, errors.AdminShutdown | errors.CrashShutdown):
        return trouble("cut_off")
    if isinstance(error, errors.ConfigurationLimitExceeded):
        setting = "max_wal_senders" if "wal_sender" in text else "max_replication_slots"
        return trouble("too_few_slots", setting=setting)
    if (code := _of_output_plugin(error, text)) is not None:
        return trouble(code, slot=slot)
    if error.sqlstate and error.sqlstate[:2] not in TEXTS_WITHOUT_VALUES:
        return trouble("stream_failed", sqlstate=error.sqlstate)
    return None


def _of_output_plugin(error: psycopg.Error, text: str) -> str | None:
    """Return the code of an output plugin's problem: it cannot be loaded, or not write binary."""
    if "may not be used as an output plugin" in text:
        return "plugin_refused"
    if isinstance(error, errors.UndefinedFile):
        return "plugin_missing"
    if isinstance(error, errors.UndefinedFunction) and "binary output" in text:
        return "binary_refused"
    return None


def _prerequisite(text: str, slot: str) -> SourceProblem:
    if "wal_level" in text:
        return trouble("wal_level", level="not logical")
    if "can no longer" in text or "invalidated" in text or "max_slot_wal_keep_size" in text:
        return lost(slot)
    return trouble("not_ready", slot=slot)


def lost(slot: str, reason: str | None = None) -> SourceProblem:
    """Return the problem of an invalidated slot, with PostgreSQL's reason if it gives one."""
    return trouble("slot_lost", slot=slot, why=f" ({reason})" if reason else "")


def no_logical(wal_level: str) -> SourceProblem:
    """Return the problem of a server whose ``wal_level`` is not logical."""
    return trouble("wal_level", level=f"{wal_level}, not logical")


def unpublished(schema: str, table: str, publications: Sequence[str]) -> SourceProblem:
    """Return the problem of a baseline's table that none of the slot's publications contains."""
    remedy = "Receive the slot with a publication"
    if publications:
        remedy = f"ALTER PUBLICATION {quoted(publications[0])} ADD TABLE {quoted(schema, table)}"
    names = ", ".join(publications) or "none"
    return trouble("not_published", table=f"{schema}.{table}", names=names, remedy=remedy)


def refused(error: Exception, schema: str, table: str, role: str) -> SourceProblem | None:
    """Return the problem behind an error that has its own meaning for a baseline, else None."""
    name = f"{schema}.{table}"
    if isinstance(error, errors.InsufficientPrivilege):
        code = "row_security" if "row-level security" in str(error) else "may_not_read"
        return trouble(
            code, table=name, role=role, quoted_role=quoted(role), quoted_schema=quoted(schema),
            quoted_table=quoted(schema, table),
        )  # fmt: skip
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
        return trouble("moved", table=name)
    return None
