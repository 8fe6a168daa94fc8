"""Read a slot through PostgreSQL's SQL functions, over an ordinary connection.

This is for servers and poolers that refuse replication connections. A *state query* returns the WAL
position and shows that nobody else moved the slot; if there is anything new, a *peek* returns one
portion of frames, and once those are stored the slot is advanced. Peeking excludes no other
session: the epoch ensures that only one receiver stores, and the state query detects that somebody
else moved the slot.

Each peek decodes from ``restart_lsn`` on and sends open streamed transactions from their beginning.
So a transaction that stays open for long is read seldom: in between, a *light* peek makes the
server omit it.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import errors, sql

from decoder.scalars import LSN
from replview.receiver.connecting import polling_conninfo
from replview.receiver.incarnation import SystemIdentity
from replview.receiver.large_values import Spooled
from replview.receiver.problems import trouble
from replview.receiver.sessions import slot_functions as functions
from replview.receiver.sessions.pacing import Pacing
from replview.receiver.sessions.simple_queries import SimpleQueries
from replview.receiver.sessions.slot_functions import ServerState, check_left_alone
from replview.receiver.sessions.walsender import forked_at

#: Seconds to wait for a query of the catalog; and, in ``close``, for a cancelled peek and an
#: advance.
_ANSWER_SECONDS, _CLOSE_SECONDS = 10.0, 1.0
#: Another session may peek for a moment: this many attempts are made before the slot is in use.
_MAX_BUSY_TRIES = 10
_BUSY_SECONDS = 0.25
_Rows = list[tuple[bytes | None, ...]]


class PollingSession:
    """An ordinary connection that peeks and advances one slot."""

    #: ``ReplicationSession`` has these attributes too; rows of a query are never read in pieces.
    in_stream: bool | None = None
    spooled: Sequence[Spooled] = ()

    def __init__(self, conninfo: str, *, client_encoding: str = "UTF8") -> None:
        """Connect to the source by an ordinary connection. Raises ``psycopg.OperationalError``."""
        self.connection: psycopg.Connection[Any] = psycopg.Connection.connect(
            polling_conninfo(conninfo), autocommit=True, prepare_threshold=None
        )
        self._queries = SimpleQueries(self.connection)
        self._client_encoding = client_encoding
        #: True when the server can detect that its client is gone.
        self._on_linux = False
        self._timeline = 0
        self._slot = ""
        self._options: dict[str, str] = {}
        self._open_xids: Collection[int] = ()
        self._pacing = Pacing()
        #: Running query: ``state``, ``peek`` or empty.
        self._step = ""
        #: True when the slot's state in the running peek was checked.
        self._checked = False
        #: End of the peek, its limit of changes, its rows so far, and attempts at a busy slot.
        self._upto = LSN(0)
        self._most = self._rows = self._busy_tries = 0
        self._light = False
        #: Positions up to which transactions that ended, and all transactions, were read.
        self._peeked_lsn = LSN(0)
        self._fully_peeked_lsn = LSN(0)
        self._stored_lsn = 0
        #: Position that the slot was advanced to, and the one that the running query advances it
        #: to.
        self._advanced_lsn = self._advancing_lsn = 0
        self._settled = True
        #: Last known position of the server.
        self.server_lsn = LSN(0)
        #: Position up to which everything for this slot was read.
        self.keepalive_lsn = LSN(0)
        #: True when the server wants an answer at once.
        self.reply_requested = False
        #: Number of portions that are over; frames of one ``read`` belong to one portion.
        self.portions_read = 0
        #: Open streamed transactions that a state query reports as aborted.
        self.aborted_xids: frozenset[int] = frozenset()

    @property
    def server_version(self) -> int:
        """Return ``server_version_num``, for instance 180004."""
        return self.connection.info.server_version

    def identify(self) -> SystemIdentity:
        """Return what IDENTIFY_SYSTEM would report, from the catalog.

        The system identifier is empty on services that keep it secret.
        """
        server = functions.parse_state(self._ask(functions.state_query(""))[0][0])
        identifier = ""
        with suppress(errors.InsufficientPrivilege):
            query = sql.SQL("SELECT system_identifier FROM pg_catalog.pg_control_system()")
            # The function returns a signed number, IDENTIFY_SYSTEM an unsigned one.
            identifier = str(int(self._ask(query)[0][0][0] or 0) % (1 << 64))
        version = self._ask(sql.SQL("SELECT pg_catalog.version()"))[0][0][0] or b""
        self._on_linux = b"linux" in version.lower()
        self._timeline = server.timeline
        return SystemIdentity(identifier, server.timeline, server.position)

    def fork_point(self, timeline: int, left: int) -> LSN | None:
        """Return the position at which ``timeline`` forked off the earlier timeline ``left``.

        None where that is unknown. Reading the history file needs the role pg_read_server_files.
        """
        name = sql.Literal(f"pg_wal/{timeline:08X}.history")
        try:
            rows = self._ask(sql.SQL("SELECT pg_catalog.pg_read_file({})").format(name))[0]
        except errors.Error:
            return None
        return forked_at((rows[0][0] or b"").decode(errors="replace"), left)

    def start(self, slot: str, lsn: LSN, options: Mapping[str, str]) -> None:
        """Peek at one record, to detect problems of the slot or the plugin's options early.

        Raises ``SourceProblem``, ``psycopg.Error``.
        """
        self._slot, self._options = slot, dict(options)
        self._stored_lsn = lsn
        server = functions.parse_state(self._ask(functions.state_query(slot))[0][0])
        self._check(server)
        # This decodes a single record, at the position where decoding must begin anyway.
        begin = server.slot_lsn("restart_lsn")
        self._ask(functions.peek(slot, self._options, upto_lsn=begin, upto_changes=1))
        self.server_lsn = server.position

    def add_waker(self, descriptor: int) -> None:
        """Make ``wait`` return when this descriptor becomes readable, too."""
        self._queries.watch(descriptor)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for data, the next query's time, a waker, or the timeout; return if a waker woke."""
        if not self._queries.running and self._settled:
            timeout_seconds = min(timeout_seconds, self._pacing.seconds_to_next())
        return self._queries.wait(timeout_seconds)

    def read(self, max_frames: int, max_bytes: int) -> list[bytes]:
        """Return the frames that have arrived, and start the next query if it is due; never block.

        Raises ``psycopg.Error``, and ``SourceProblem`` where the slot is gone, was moved, or is
        read by another session for too long.
        """
        try:
            rows = self._queries.read(max_frames, max_bytes)
        except errors.ObjectInUse:
            self._try_later()
            return []
        except psycopg.OperationalError as error:
            if error.sqlstate is None:
                raise trouble("cut_off") from error
            raise
        if not rows and self._queries.running:
            return []
        if self._step == "peek" and not self._checked:
            self._check(functions.parse_state(self._queries.results[0][0]))
            self._checked = True
        frames = [frame for row in rows if (frame := functions.frame_of(row)) is not None]
        if self._light:
            frames = functions.without_stream_aborts(frames)
        if frames:
            self._pacing.first_row()
            self._rows += len(frames)
            self._settled = False
        if not self._queries.running:
            self._go_on()
        return frames

    def is_swollen(self) -> bool:
        """Return False: the connection does not keep what a peek returned."""
        return False

    def settled(self, stored_lsn: int, open_xids: Collection[int]) -> None:
        """Record that everything read so far is stored; the slot may advance and a new peek begin.

        ``stored_lsn`` is the position up to which the store has everything. ``open_xids`` are
        streamed transactions that have not ended: the next state query asks for their outcome.
        """
        self._stored_lsn = max(self._stored_lsn, stored_lsn)
        self._open_xids = open_xids
        self._settled = True
        if self._step != "peek":
            self._pacing.stored()

    def confirm(self, stored_lsn: int, *, clock_us: int) -> None:
        """Record that everything up to ``stored_lsn`` is stored; the next query advances to it."""
        self._stored_lsn = max(self._stored_lsn, stored_lsn)
        self.reply_requested = False

    def close(self) -> None:
        """Cancel the running query, advance the slot, and close the connection. Raises nothing."""
        try:
            if self._queries.running:
                self.connection.cancel_safe(timeout=_CLOSE_SECONDS)
                with suppress(errors.QueryCanceled):
                    self._queries.finish(time.monotonic() + _CLOSE_SECONDS)
            if self._stored_lsn > self._advanced_lsn and self._slot:
                self._ask(self._advance(), seconds=_CLOSE_SECONDS)
        except psycopg.Error:
            pass  # the connection is gone or slow: the next session advances the slot
        finally:
            self.connection.close()

    def _go_on(self) -> None:
        """Process the query that has ended, and start the next one if it is due."""
        step, self._step = self._step, ""
        if step == "state":
            server = functions.parse_state(self._queries.results[-1][0])
            self._advanced_lsn = max(self._advanced_lsn, self._advancing_lsn)
            self._check(server)
            light = self._pacing.is_light(bool(self._open_xids))
            upto = self._pacing.reach(server.position)
            if upto > (self._peeked_lsn if light else self._fully_peeked_lsn):
                self._upto = upto
                self._begin_peek(server, light)
            else:
                self._pacing.nothing_new()
        elif step == "peek":
            self._portion_over()
        elif self._settled and self._pacing.seconds_to_next() <= 0:
            self._ask_state()

    def _ask_state(self) -> None:
        """Start the cheap state query, and advance the slot with it if more was stored."""
        statements: list[sql.Composable] = []
        if self._stored_lsn > self._advanced_lsn:
            self._advancing_lsn = self._stored_lsn
            statements.append(self._advance())
        self._send("state", [*statements, functions.state_query(self._slot, self._open_xids)])

    def _begin_peek(self, server: ServerState, light: bool) -> None:
        """Start a peek at everything up to the server's position, limited to one portion."""
        self._rows = 0
        self._checked = False
        self._light = light and "streaming" in self._options
        self.aborted_xids = frozenset(
            xid for xid, status in server.statuses.items() if status == "aborted"
        )
        options = dict(self._options)
        if light:
            options.pop("streaming", None)
        else:
            self._fully_peeked_lsn = self._upto
        self._most = self._pacing.begin(light=light)
        peek_query = functions.peek(
            self._slot, options, upto_lsn=self._upto, upto_changes=self._most
        )
        settings = functions.settings(
            self.server_version, self._client_encoding, on_linux=self._on_linux
        )
        self._send("peek", [functions.state_query(self._slot), *settings, peek_query])

    def _portion_over(self) -> None:
        self.portions_read += 1
        complete = self._rows < self._most
        self._busy_tries = 0
        self.server_lsn = max(self.server_lsn, self._upto)
        if complete:
            self._peeked_lsn = max(self._peeked_lsn, self._upto)
            # A position up to which open transactions were not read must not be confirmed: the
            # server sends them again only once they grow.
            if self._fully_peeked_lsn == self._upto:
                self.keepalive_lsn = self._upto
        self._pacing.over(complete=complete, open_streams=bool(self._open_xids))

    def _check(self, server: ServerState) -> None:
        check_left_alone(server, self._slot, timeline=self._timeline, stored_lsn=self._stored_lsn)

    def _try_later(self) -> None:
        """Postpone the query, since another session reads the slot. Raises ``SourceProblem``."""
        self._step = ""
        self._busy_tries += 1
        if self._busy_tries > _MAX_BUSY_TRIES:
            raise trouble("slot_in_use", slot=self._slot)
        self._pacing.later(_BUSY_SECONDS)

    def _advance(self) -> sql.Composable:
        return functions.advance(self._slot, self._stored_lsn, self._timeline)

    def _send(self, step: str, statements: list[sql.Composable]) -> None:
        self._step = step
        # The comment is for readers of pg_stat_activity.
        self._queries.send(f"/* replview: {step} */ ".encode() + functions.query_string(statements))

    def _ask(self, *statements: sql.Composable, seconds: float = _ANSWER_SECONDS) -> list[_Rows]:
        query = functions.query_string(list(statements))
        return self._queries.run(query, time.monotonic() + seconds)
