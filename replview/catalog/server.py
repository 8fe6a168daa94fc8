"""This module reads the server as a whole: version, identity, settings, position."""

import datetime as dt
import re
from dataclasses import dataclass, field
from typing import Any

import psycopg

from decoder.scalars import LSN, lsn_from_text
from replview.catalog.connections import Connection, Query

#: Units of settings, in bytes or milliseconds.
_UNITS = {"B": 1, "kB": 1024, "8kB": 8192, "MB": 1024**2, "GB": 1024**3, "ms": 1,
          "s": 1000, "min": 60_000}  # fmt: skip
#: Information that a server reports only from a major version on.
_REPORTED_FROM = {
    13: "how much WAL a slot may still keep",
    14: "open transactions, logical messages and the actors that they name, what decoding spilled",
    15: "prepared transactions before COMMIT PREPARED",
}
SERVER = Query(
    name="server",
    about="Version, database, encoding, recovery, senders and slots in use; anyone may read it.",
    sql="""
        SELECT current_setting('server_version_num')::int AS version,
               current_setting('server_version') AS version_text,
               current_database() AS database,
               current_user AS role,
               pg_encoding_to_char(d.encoding) AS encoding,
               pg_is_in_recovery() AS in_recovery,
               pg_postmaster_start_time() AS started_at,
               has_database_privilege(current_database(), 'CREATE') AS may_create,
               (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser,
               (SELECT count(*) FROM pg_stat_get_wal_senders()) AS walsenders_used,
               (SELECT count(*) FROM pg_replication_slots) AS slots_used
          FROM pg_database AS d
         WHERE d.datname = current_database()
    """,
)
SETTINGS = Query(
    name="settings",
    about="The settings that replication depends on; absent ones are unknown to the version.",
    sql="SELECT name, setting, unit FROM pg_settings WHERE name = ANY (%s)",
)
IDENTITY = Query(
    name="identity",
    about="System identifier and timeline, from the control file; some services forbid it.",
    sql="""
        SELECT s.system_identifier, c.timeline_id
          FROM pg_control_system() AS s, pg_control_checkpoint() AS c
    """,
)
POSITION = Query(
    name="position",
    about="Where the WAL is now: written on a primary, replayed on a standby.",
    sql="""
        SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                    ELSE pg_current_wal_lsn() END::text AS lsn
    """,
)
_SETTINGS = [
    "wal_level", "effective_wal_level", "max_replication_slots", "max_wal_senders",
    "max_slot_wal_keep_size", "logical_decoding_work_mem", "max_prepared_transactions",
    "wal_sender_timeout", "output_plugin_libraries", "idle_replication_slot_timeout",
    "hot_standby_feedback",
]  # fmt: skip
#: An entry of a list of libraries; double quotes may contain any character.
_LIST_ENTRY = re.compile(r'"((?:[^"]|"")*)"|([^",\s][^",]*)')
FAILOVER_SETTINGS = Query(
    name="failover_settings",
    about="What keeps slots on a standby in step; anyone may read it, but of primary_conninfo "
    "(which may hold a password, so only whether it names a database) just pg_read_all_settings.",
    sql="""
        SELECT current_setting('synchronized_standby_slots', true) AS synchronized_standby_slots,
               current_setting('sync_replication_slots', true) AS sync_replication_slots,
               current_setting('hot_standby_feedback', true) AS hot_standby_feedback,
               current_setting('primary_slot_name', true) AS primary_slot_name,
               CASE WHEN pg_has_role('pg_read_all_settings', 'USAGE')
                    THEN current_setting('primary_conninfo', true) ~ 'dbname|://[^/]*/[^?]'
               END AS primary_conninfo_names_database
    """,
)


def unreported_facts(server_version: int | None) -> str:
    """Return a sentence on what a server of this version does not report; empty: it reports all.

    ``server_version`` is ``server_version_num``; None gives an empty sentence.
    """
    major = (server_version or 0) // 10000
    missing = [
        f"{fact} (from {first_major} on)"
        for first_major, fact in _REPORTED_FROM.items()
        if major < first_major
    ]
    return f"PostgreSQL {major} does not report: {'; '.join(missing)}." if major and missing else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The server as the connected role sees it. None is unknown, never zero."""

    #: ``server_version_num``: 180004 is 18.4.
    version: int
    version_text: str
    database: str
    role: str
    superuser: bool
    #: True if the role may create publications in the database (it must also own the tables).
    may_create: bool
    encoding: str
    in_recovery: bool
    system_identifier: str | None
    timeline: int | None
    wal_level: str
    max_replication_slots: int
    slots_used: int
    max_wal_senders: int
    walsenders_used: int
    #: max_slot_wal_keep_size; None: before 13, which has no such setting; -1: no limit.
    max_slot_wal_keep_bytes: int | None
    logical_decoding_work_mem_bytes: int | None
    max_prepared_transactions: int
    #: wal_sender_timeout; 0: the server never notices that a reader vanished.
    wal_sender_timeout_ms: int
    #: Output plugins that are allowed; None: the version has no such list and allows all.
    output_plugins: tuple[str, ...] | None = None
    #: Time without a reader after which a checkpoint invalidates a slot; 0: never; None: before
    #: 18, which has no such setting.
    idle_slot_timeout_seconds: int | None = None
    #: True if a standby keeps its primary from removing rows that its slots need.
    hot_standby_feedback: bool | None = None
    #: Start time, which identifies the server together with the system identifier.
    started_at: dt.datetime | None = None
    #: The result of ``read_failover_settings``; empty before 17.
    failover_settings: dict[str, Any] = field(default_factory=dict)

    @property
    def major(self) -> int:
        """Return the major version: 14, 15, … (9 for all of 9.x)."""
        return self.version // 10000


def read_server_facts(connection: Connection) -> ServerFacts:
    """Read everything about the server that replication depends on."""
    settings = {row["name"]: row for row in SETTINGS.rows(connection, _SETTINGS)}
    identity = _identity(connection)
    idle_ms = _quantity(settings.get("idle_replication_slot_timeout"))
    return ServerFacts(
        **SERVER.row(connection),
        system_identifier=identity["system_identifier"],
        timeline=identity["timeline_id"],
        wal_level=(settings.get("effective_wal_level") or settings["wal_level"])["setting"],
        max_replication_slots=int(settings["max_replication_slots"]["setting"]),
        max_wal_senders=int(settings["max_wal_senders"]["setting"]),
        max_slot_wal_keep_bytes=_quantity(settings.get("max_slot_wal_keep_size")),
        logical_decoding_work_mem_bytes=_quantity(settings.get("logical_decoding_work_mem")),
        max_prepared_transactions=int(settings["max_prepared_transactions"]["setting"]),
        wal_sender_timeout_ms=int(settings["wal_sender_timeout"]["setting"]),
        output_plugins=_list_entries(settings.get("output_plugin_libraries")),
        idle_slot_timeout_seconds=None if idle_ms is None else idle_ms // 1000,
        hot_standby_feedback=settings["hot_standby_feedback"]["setting"] == "on",
        failover_settings=read_failover_settings(connection),
    )


def read_position(connection: Connection) -> LSN | None:
    """Return the position of the WAL; None on a standby that has replayed nothing."""
    return lsn_from_text(POSITION.row(connection)["lsn"])


def _identity(connection: Connection) -> dict[str, Any]:
    """Return system identifier (text, as in IDENTIFY_SYSTEM) and timeline; None if forbidden."""
    try:
        row = IDENTITY.row(connection)
    except psycopg.errors.InsufficientPrivilege:
        return {"system_identifier": None, "timeline_id": None}
    # pg_control_system() returns a signed number, IDENTIFY_SYSTEM an unsigned one.
    return {**row, "system_identifier": str(row["system_identifier"] % (1 << 64))}


def _list_entries(row: dict[str, Any] | None) -> tuple[str, ...] | None:
    """Return the libraries in the value of a setting, without quotes; None without the setting."""
    if row is None:
        return None
    matches = _LIST_ENTRY.findall(row["setting"])
    return tuple(quoted.replace('""', '"') or plain.strip() for quoted, plain in matches)


def _quantity(row: dict[str, Any] | None) -> int | None:
    """Return a setting in bytes (or milliseconds), whatever unit the server counts it in."""
    if row is None:
        return None
    value = int(row["setting"])
    return value if value < 0 else value * _UNITS.get(row["unit"], 1)


def read_failover_settings(connection: Connection) -> dict[str, Any]:
    """Return the settings that synchronize slots, by name; empty before 17.

    A value is None where the role may not read it.
    """
    if connection.info.server_version < 170000:
        return {}
    return FAILOVER_SETTINGS.row(connection)
