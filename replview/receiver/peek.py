"""Peek into an idle slot: list what waits in it, within limits, without moving it.

The server decodes all the WAL that was asked for before it returns the first row. So this module
asks for growing stretches of WAL, each four times as long as the last, until it has seen everything
or meets a limit; when the time is over, the better of the last two results is returned. That costs
a third more than a single query.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from decoder.reader import ProtocolError
from decoder.scalars import LSN
from replview.catalog.peekable import PLUGINS
from replview.catalog.problems import SourceProblem
from replview.receiver.connecting import codec_of, encodings_for, polling_conninfo
from replview.receiver.peek_findings import Findings
from replview.receiver.plugins import StreamOptions, choose, new_decoder, plugin_arguments
from replview.receiver.problems import lost, name_trouble, trouble
from replview.receiver.sessions import slot_functions as functions
from replview.receiver.sessions.simple_queries import SimpleQueries
from replview.receiver.source_catalog import NamedTables, SourceCatalog

#: Seconds to wait for the rest of a record when the flushed WAL ends at a page boundary.
_PAGE_SECONDS = 1.0
#: Bytes of WAL that the first query covers, counted from where decoding must begin.
FIRST_BYTES = 32 * 1024 * 1024
_REACH_FACTOR = 4
#: The server limits rows, this module changes. A change alone in its transaction takes four rows.
_ROWS_PER_CHANGE = 4
_ROWS_EXTRA = 1_000
_READ_ROWS, _READ_BYTES = 2_000, 2 * 1024 * 1024
_ALL_TABLES = "which tables are published: changes of all tables of the database are listed"
#: Plugin → what its output does not contain.
_NOT_REPORTED = {
    "test_decoding": (
        "the replica identity and the primary key of a table",
        "what is in transactions that have not ended",
        "subtransactions and replication origins",
        "where a commit record begins",
        _ALL_TABLES,
    ),
    "wal2json": (
        "the replica identity of a table",
        "transactions that have not ended, and whether one is prepared",
        "NaN and ±Infinity, which read as NULL",
        "updates and deletes of tables without a replica identity",
        "subtransactions",
        _ALL_TABLES,
    ),
}


def peek(
    conninfo: str,
    slot_name: str,
    *,
    plugin: str,
    options: Mapping[str, Any],
    max_changes: int,
    max_seconds: float,
) -> dict[str, object]:
    """Return what waits in the slot. Raises ``SourceProblem``.

    ``options`` is ``{"publications": […]}`` for pgoutput, ``{"format_version": 1}`` for wal2json.
    The slot is not moved, and never switched to two-phase decoding.
    """
    started = time.monotonic()
    publications = [str(name) for name in options.get("publications", ())]
    if plugin not in PLUGINS:
        raise _unreadable(slot_name, plugin)
    catalog = SourceCatalog(conninfo)
    connection: psycopg.Connection[Any] | None = None
    try:
        connection = psycopg.Connection.connect(
            polling_conninfo(conninfo), autocommit=True, prepare_threshold=None
        )
        reader = _SlotReader(
            SimpleQueries(connection), connection, catalog, slot_name, plugin, options
        )
        deadline = started + max_seconds
        findings = reader.look(publications, max_changes, deadline)
    except (psycopg.Error, ProtocolError) as error:
        raise name_trouble(
            error, conninfo=conninfo, slot=slot_name, publications=publications
        ) from None
    finally:
        if connection is not None:
            connection.close()
        catalog.close()
    return findings.result(plugin, seconds=time.monotonic() - started)


@dataclass(slots=True)
class _SlotReader:
    queries: SimpleQueries
    connection: psycopg.Connection[Any]
    catalog: SourceCatalog
    slot: str
    plugin: str
    options: Mapping[str, Any]

    def look(self, publications: list[str], max_changes: int, deadline: float) -> Findings:
        """Read ever further into the WAL, until everything is seen or a limit is met."""
        server = self._settled_state(publications, deadline)
        stream = choose(
            self.connection.info.server_version, publications, {}, slot_two_phase=False, owned=False
        )
        arguments = plugin_arguments(self.plugin, stream, self.options)
        from_lsn = server.slot_lsn("confirmed_flush_lsn")
        end = server.position
        if end % functions.WAL_PAGE_BYTES == 0:
            # The WAL may end within a record, and the server would wait for the rest of it.
            end = max(LSN(end - functions.WAL_PAGE_BYTES), from_lsn)
        reach = FIRST_BYTES
        unknown = list(_NOT_REPORTED.get(self.plugin, ()))
        best = Findings(from_lsn, from_lsn, unknown)
        while True:
            begin = max(from_lsn, server.slot_lsn("restart_lsn"))
            upto = min(LSN(begin + reach), end)
            findings = Findings(from_lsn, upto, unknown, complete=upto >= server.position)
            limit = max_changes * _ROWS_PER_CHANGE + _ROWS_EXTRA
            peek_query = functions.peek(self.slot, arguments, upto_lsn=upto, upto_changes=limit)
            if not self._read(peek_query, stream, findings, max_changes, limit, deadline):
                best.stop("seconds")
                # Return the result that has more changes: the cut-off query may have seen more than
                # the last one.
                if findings.changes > best.changes:
                    findings.stop("seconds")
                    return findings
                return best
            if upto >= end or findings.stopped_by:
                return findings
            best = findings
            reach *= _REACH_FACTOR

    def _settled_state(self, publications: list[str], deadline: float) -> functions.ServerState:
        """Return the server's state once its flushed WAL does not end at a page boundary.

        There it may end within a record, whose rest is flushed a moment later. If it stays there,
        ``look`` leaves out the last page, and the result is not complete.
        """
        wait_until = min(deadline, time.monotonic() + _PAGE_SECONDS)
        server = self._check(publications, deadline)
        while server.position % functions.WAL_PAGE_BYTES == 0 and time.monotonic() < wait_until:
            time.sleep(0.05)
            server = self._check(publications, deadline)
        return server

    def _check(self, publications: list[str], deadline: float) -> functions.ServerState:
        """Return the server's state.

        Raises ``SourceProblem`` where reading would fail or yield nothing.
        """
        queries = [
            functions.state_query(self.slot),
            sql.SQL("SELECT pubname FROM pg_catalog.pg_publication"),
        ]
        query = functions.query_string(queries)
        (row,), published = self.queries.run(query, max(deadline, time.monotonic() + 1.0))
        server = functions.parse_state(row)
        if server.slot is None:
            raise trouble("slot_missing", slot=self.slot)
        if server.slot.get("active_pid") is not None:
            raise trouble("slot_in_use", slot=self.slot)
        if server.slot.get("wal_status") == "lost" or server.slot.get("invalidation_reason"):
            raise lost(self.slot, server.slot.get("invalidation_reason"))
        if server.slot.get("plugin") != self.plugin:
            raise _unreadable(self.slot, str(server.slot.get("plugin")))
        existing_names = {(name or b"").decode(errors="replace") for (name,) in published}
        if self.plugin == "pgoutput" and not (publications and set(publications) <= existing_names):
            raise _no_publication(publications, existing_names)
        return server

    def _read(
        self,
        peek_query: sql.Composable,
        stream: StreamOptions,
        findings: Findings,
        max_changes: int,
        limit: int,
        deadline: float,
    ) -> bool:
        """Run one query and add its rows to ``findings``; return False if time ran out first."""
        server_encoding = self.connection.info.parameter_status("server_encoding") or "UTF8"
        client_encoding, encoding = encodings_for(server_encoding)
        if self.plugin != "pgoutput":
            encoding = codec_of(server_encoding)
        tables = NamedTables(self.catalog.named_table)
        decoder = new_decoder(
            self.plugin, stream, encoding, wanted=self.options, tables=tables, user_types={}
        )
        version = self.connection.info.server_version
        settings = functions.settings(version, client_encoding, on_linux=False)
        self.queries.send(functions.query_string([*settings, peek_query]))
        rows = 0
        while self.queries.running:
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                self.queries.cancel()
                return False
            self.queries.wait(min(seconds_left, 1.0))
            copied = self.queries.read(_READ_ROWS, _READ_BYTES)
            frames = [frame for row in copied if (frame := functions.frame_of(row)) is not None]
            rows += len(frames)
            if findings.take(decoder.feed(frames), max_changes):
                findings.stop("changes")
                self.queries.cancel()
                return True
        if rows >= limit:
            findings.stop("changes")
        findings.end(decoder.open_streams)
        return True


def _unreadable(slot: str, plugin: str) -> SourceProblem:
    return SourceProblem(
        "plugin_unsupported",
        f"the output plugin of slot {slot} is {plugin or 'unknown'}, which replview cannot read",
        f"Choose a slot with one of the output plugins {', '.join(PLUGINS)}",
    )


def _no_publication(names: list[str], existing_names: set[str]) -> SourceProblem:
    missing = [name for name in names if name not in existing_names]
    cause = f"there is no publication {missing[0]}" if missing else "no publication was named"
    return SourceProblem(
        "publication_missing",
        f"{cause}, and pgoutput sends changes of published tables only",
        "Name the publications that the slot's reader uses; this database has: "
        f"{', '.join(sorted(existing_names)) or 'none'}",
    )
