"""What went wrong with a slot: a named state with cause and remedy, and when to try again.

The SQL in remedies is shown to people and never run from here.
"""

import traceback
from collections.abc import Sequence

import psycopg
from psycopg import errors

from decoder.reader import ProtocolError
from replview.catalog.naming import quoted
from replview.catalog.problems import TEXTS_WITHOUT_VALUES, SourceProblem, explain
from replview.receiver.storing.store_batch import StoreRefused

# ruff: noqa: S608


#: Troubles that nothing but a person mends: tried again seldom.
_LASTING = {
    "slot_lost",
    "slot_missing",
    "slot_other_plugin",
    "slot_other_database",
    "publication_missing",
    "wal_level",
    "unsupported",
    "bad_dsn",
    "binary_refused",
    "plugin_refused",
    "plugin_missing",
}
#: Ordinary interruptions: tried again at once, then with growing pauses.
_PASSING = {"restarting", "cut_off", "slot_in_use", "starting_up", "other_server", "silent"}


class StreamEnded(Exception):
    """The server ended the stream without an error: it is stopping. Connect again."""


def name_trouble(
    error: Exception, *, conninfo: str, slot: str, publications: list[str]
) -> SourceProblem:
    """The trouble behind whatever ended a session (or kept it from starting)."""
    if isinstance(error, SourceProblem):
        return error
    if isinstance(error, StreamEnded):
        return SourceProblem("restarting", "the server is stopping or restarting", "Nothing to do: "
                       "replview connects again by itself")  # fmt: skip
    if isinstance(error, ProtocolError):
        return SourceProblem(
            "protocol",
            f"the server sent what the protocol does not allow ({error})",
            "Please report it with the server's version; nothing was lost or confirmed",
        )
    if isinstance(error, psycopg.Error):
        known = _by_sqlstate(error, slot, publications)
        return known if known is not None else explain(error, conninfo)
    if isinstance(error, StoreRefused):
        if error.sqlstate == "53100":
            return SourceProblem(
                "store_full",
                "the disk of replview's store is full",
                "Free space there (or give the store a larger disk): receiving goes on by itself, "
                "nothing was lost or confirmed; until then the source keeps the WAL",
            )
        return SourceProblem(
            "store_refused",
            f"the store refused what was received ({error})",
            "See the log of the store's PostgreSQL; nothing was lost or confirmed",
        )
    return SourceProblem(
        "internal",
        f"replview itself failed ({type(error).__name__})",
        "See the worker's log, and please report it; nothing was lost or confirmed",
    )


def where_it_failed(error: Exception) -> str:
    """Where in our code, for the log. The error's own text may hold a value and is left out."""
    where = "".join(traceback.format_tb(error.__traceback__)[-6:])
    return f"{type(error).__name__} in\n{where}"


def pause_seconds(code: str, attempt: int) -> float:
    """How long to wait before attempt number ``attempt`` (from 1) after this trouble."""
    if code in _LASTING:
        return 30.0
    if code in _PASSING:
        return min(0.2 * 2.0 ** (attempt - 1), 5.0)
    return min(2.0 ** (attempt - 1), 30.0)


def _by_sqlstate(error: psycopg.Error, slot: str, publications: list[str]) -> SourceProblem | None:
    text = str(error)
    if isinstance(error, errors.ObjectInUse):
        return in_use(slot)
    if isinstance(error, errors.UndefinedObject) and "publication" in text:
        return _publication_missing(publications)
    if isinstance(error, errors.UndefinedObject) and "replication slot" in text:
        return missing(slot)
    if isinstance(error, errors.ObjectNotInPrerequisiteState):
        return _prerequisite(text, slot)
    if isinstance(error, errors.AdminShutdown | errors.CrashShutdown):
        return cut_off()
    if isinstance(error, errors.ConfigurationLimitExceeded):
        return _too_few(text)
    refused = _of_output_plugin(error, text, slot)
    if refused is not None:
        return refused
    if error.sqlstate and error.sqlstate[:2] not in TEXTS_WITHOUT_VALUES:
        # The text of such an error may quote a value.
        return SourceProblem(
            "stream_failed",
            f"the server could not send the stream (SQLSTATE {error.sqlstate})",
            "See the server's log, which names the cause; replview tries again",
        )
    return None


def _of_output_plugin(error: psycopg.Error, text: str, slot: str) -> SourceProblem | None:
    """What the slot's output plugin cannot do there: be loaded, or write what was asked for."""
    if "may not be used as an output plugin" in text:
        # The newest minor releases have a list of what may.
        return SourceProblem(
            "plugin_refused",
            f"the server does not allow the output plugin of the slot {slot}",
            "Add it to the list: ALTER SYSTEM SET output_plugin_libraries = pgoutput, …, then "
            "SELECT pg_reload_conf()",
        )
    if isinstance(error, errors.UndefinedFile):
        return SourceProblem(
            "plugin_missing",
            f"the output plugin of the slot {slot} is not installed on the server",
            "Install it there (Debian: postgresql-<version>-wal2json; test_decoding comes with "
            "postgresql-contrib)",
        )
    if isinstance(error, errors.UndefinedFunction) and "binary output" in text:
        return SourceProblem(
            "binary_refused",
            "a column's type has no binary form, which ends a binary stream at this change",
            "Receive the slot as text: remove binary from its options",
        )
    return None


def _publication_missing(publications: list[str]) -> SourceProblem:
    names = ", ".join(publications)
    return SourceProblem(
        "publication_missing",
        f"a publication that the slot reads ({names}) does not exist where the stream stands",
        "On PostgreSQL 16 and earlier re-creating it does not help for changes made while it was "
        "missing: remove the slot here and add it again",
    )


def _prerequisite(text: str, slot: str) -> SourceProblem:
    if "wal_level" in text:
        return SourceProblem(
            "wal_level",
            "the server's wal_level is not logical",
            "ALTER SYSTEM SET wal_level = 'logical', then restart the server",
        )
    if "can no longer" in text or "invalidated" in text or "max_slot_wal_keep_size" in text:
        return lost(slot)
    return SourceProblem(
        "not_ready",
        f"the server cannot start the slot {slot} in its present state",
        "See its log; replview tries again",
    )


def in_use(slot: str) -> SourceProblem:
    """Only one session at a time can read a slot, and it is not ours."""
    return SourceProblem(
        "slot_in_use",
        f"another session is reading the slot {slot}",
        "Stop the other reader, or end it: SELECT pg_terminate_backend(active_pid) FROM "
        f"pg_replication_slots WHERE slot_name = '{slot}'",
    )


def missing(slot: str) -> SourceProblem:
    """The source has no such slot."""
    return SourceProblem(
        "slot_missing",
        f"the slot {slot} is not on the source any more",
        "Remove it here (replview slot remove) and add it again; the changes in between are not to "
        "be had",
    )


def cut_off() -> SourceProblem:
    """The server, or a pooler before it, hung up."""
    return SourceProblem(
        "cut_off",
        "the server ended our connection (a restart, pg_terminate_backend, or the slot was "
        "invalidated)",
        "Nothing to do: replview connects again by itself",
    )


def consumed(slot: str) -> SourceProblem:
    """The slot stands beyond what we confirmed."""
    return SourceProblem(
        "slot_consumed",
        f"somebody else advanced the slot {slot} beyond what was stored here",
        "A slot has one reader: find the other one (a script with pg_logical_slot_get_changes, "
        "another replview) and stop it, or give it a slot of its own",
    )


def silent() -> SourceProblem:
    """The server was asked for a keepalive and sent none."""
    return SourceProblem(
        "silent",
        "the server does not answer any more (its host, or the network before it, is gone)",
        "Nothing to do: replview connects again by itself",
    )


def other_server() -> SourceProblem:
    """The same address leads to another server, or to another timeline."""
    return SourceProblem(
        "other_server",
        "the connection leads to another server than before (a failover, or a pooler that was "
        "pointed elsewhere)",
        "Nothing to do: replview looks at the slot there and goes on",
    )


def lost(slot: str, reason: str | None = None) -> SourceProblem:
    """The slot was invalidated: the WAL it needs is gone."""
    why = f" ({reason})" if reason else ""
    return SourceProblem(
        "slot_lost",
        f"the slot {slot} is lost{why}: the server has removed WAL it needed",
        f"Run SELECT pg_drop_replication_slot('{slot}'), remove it here and add it again; the "
        "changes in between are not to be had from this server",
    )


def _too_few(text: str) -> SourceProblem:
    setting = "max_wal_senders" if "wal_sender" in text else "max_replication_slots"
    return SourceProblem(
        "too_few_slots",
        f"all of the server's {setting} are in use",
        f"Drop what is unused, or ALTER SYSTEM SET {setting} = <more> and restart the server",
    )


# What keeps a baseline from being read.

_ASK_AGAIN = "Ask for the baseline again"


def standby() -> SourceProblem:
    """Only a primary can be asked."""
    return SourceProblem(
        "standby",
        "the source is a standby, whose snapshots cannot be tied to a position of the WAL",
        "Add the primary as a source with a slot of its own, and take the baseline there",
    )


def no_logical(wal_level: str) -> SourceProblem:
    """No slot can be made."""
    return SourceProblem(
        "wal_level",
        f"the server's wal_level is {wal_level}, not logical",
        "ALTER SYSTEM SET wal_level = 'logical', then restart the server",
    )


def other_plugin(plugin: str) -> SourceProblem:
    """Its stream tells other columns and texts than the catalog would."""
    return SourceProblem(
        "other_plugin",
        f"the slot speaks {plugin}, and a baseline is read as pgoutput would send its rows",
        "Add a slot of pgoutput for this source",
    )


def other_cluster() -> SourceProblem:
    """Its positions do not compare with those of the record."""
    return SourceProblem(
        "other_cluster",
        "the source is another cluster, or on another timeline, than the slot's record is of",
        "Once the slot is received from it, a new record begins: ask again then",
    )


def incarnation_ended() -> SourceProblem:
    """The slot began anew while the table was read."""
    return SourceProblem(
        "life_ended",
        "a new record of the slot began while the table was read, and positions do not compare "
        "across it",
        _ASK_AGAIN,
    )


def no_table(schema: str, table: str) -> SourceProblem:
    """Dropped or renamed."""
    return SourceProblem(
        "no_such_table", f"there is no table {schema}.{table} any more", "Name another"
    )


def unpublished(schema: str, table: str, publications: Sequence[str]) -> SourceProblem:
    """None of its later changes would come."""
    names = ", ".join(publications) or "none"
    add = (
        f"ALTER PUBLICATION {quoted(publications[0])} ADD TABLE {quoted(schema, table)}"
        if publications
        else "Receive the slot with a publication"
    )
    return SourceProblem(
        "not_published",
        f"{schema}.{table} is not published to this slot (publications: {names})",
        add,
    )


def locked(schema: str, table: str) -> SourceProblem:
    """DDL holds it."""
    return SourceProblem(
        "locked",
        f"{schema}.{table} is locked by another session (ALTER TABLE, TRUNCATE, VACUUM FULL …)",
        f"{_ASK_AGAIN} when that has ended",
    )


def moved(schema: str, table: str) -> SourceProblem:
    """The snapshot does not see its rows."""
    return SourceProblem(
        "moved",
        f"{schema}.{table} was truncated, rewritten or repartitioned at this very moment",
        _ASK_AGAIN,
    )


def may_not_read(schema: str, table: str, role: str) -> SourceProblem:
    """Decoding needs no right to read, a baseline does."""
    return SourceProblem(
        "may_not_read",
        f"role {role} may receive the changes of {schema}.{table}, but not read it",
        f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {quoted(role)}; "
        f"GRANT SELECT ON {quoted(schema, table)} TO {quoted(role)}",
    )


def row_security(schema: str, table: str, role: str) -> SourceProblem:
    """It would see a part of the rows."""
    return SourceProblem(
        "row_security",
        f"{schema}.{table} has row-level security, under which role {role} would see a part of its "
        "rows and not know it",
        f"ALTER ROLE {quoted(role)} BYPASSRLS",
    )


def waited(seconds: float) -> SourceProblem:
    """Making a slot waits for whatever runs."""
    return SourceProblem(
        "waited",
        "transactions that were open on the server (running, or prepared) did not end within "
        f"{_span(seconds)}, and a consistent snapshot waits for them",
        "End them, or wait until they end, and ask again: SELECT pid, xact_start, state FROM "
        "pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY xact_start; "
        "SELECT gid, prepared FROM pg_prepared_xacts ORDER BY prepared",
    )


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"


def too_many() -> SourceProblem:
    """Changes are numbered by 32 bits within a transaction."""
    return SourceProblem(
        "too_many_rows",
        "the table has more than 2,147,483,647 rows, which one baseline cannot hold",
        "Take baselines of its partitions, or narrow the publication by a row filter",
    )


def refused(error: Exception, schema: str, table: str, role: str) -> SourceProblem | None:
    """Errors of reading that mean something of their own here."""
    if isinstance(error, errors.InsufficientPrivilege):
        if "row-level security" in str(error):
            return row_security(schema, table, role)
        return may_not_read(schema, table, role)
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
        return moved(schema, table)
    return None
