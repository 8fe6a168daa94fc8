"""The SQL interface: a slot read through PostgreSQL's functions over an ordinary connection.

For servers and poolers that refuse replication connections. A *state query* says how far the WAL is
and that the slot is still as we left it; if there is anything new, a *peek* gives it as one portion
of frames, and once that is stored the slot is advanced. Peeking excludes nobody: that only one
receiver stores is the epoch's work, and that nobody else moves the slot is looked for each time.

Each peek decodes from ``restart_lsn`` on and sends open streamed transactions from their beginning.
So a long open one is asked for seldom: in between, a *light* peek leaves it out on the server.
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

#: What the catalog must answer in; how long closing waits for a cancelled peek, and for an advance.
_ANSWER_SECONDS, _CLOSE_SECONDS = 10.0, 1.0
#: Another session may look into the slot for a moment: tried so often before it is in use.
_BUSY_TRIES = 10
_BUSY_SECONDS = 0.25
_Rows = list[tuple[bytes | None, ...]]


class PollingSession:
    """One ordinary connection that peeks and advances, from connecting to closing."""

    #: As in ``ReplicationSession``; but rows of a query come whole, however large.
    in_stream: bool | None = None
    spooled: Sequence[Spooled] = ()

    def __init__(self, conninfo: str, *, client_encoding: str = "UTF8") -> None:
        """Connect to the source by an ordinary connection. Raises ``psycopg.OperationalError``."""
        self.connection: psycopg.Connection[Any] = psycopg.Connection.connect(
            polling_conninfo(conninfo), autocommit=True, prepare_threshold=None
        )
        self._queries = SimpleQueries(self.connection)
        self._client_encoding = client_encoding
        #: The server can notice that its client is gone.
        self._on_linux = False
        self._timeline = 0
        self._slot = ""
        self._options: dict[str, str] = {}
        self._open_xids: Collection[int] = ()
        self._pacing = Pacing()
        #: What runs: ``state``, ``peek`` or nothing.
        self._step = ""
        #: The peek that runs told that the slot is still as we left it.
        self._checked = False
        #: How far the peek goes, how many changes it takes at most, and how many came.
        self._upto = LSN(0)
        self._most = self._rows = self._busy_tries = 0
        self._light = False
        #: Everything before it has been peeked; and what is still open, too.
        self._peeked_lsn = LSN(0)
        self._fully_peeked_lsn = LSN(0)
        self._stored_lsn = 0
        #: What the slot was last advanced to, and what the state query that runs advances it to.
        self._advanced_lsn = self._advancing_lsn = 0
        self._settled = True
        #: The server's position as last heard.
        self.server_lsn = LSN(0)
        #: Everything before it that is for us has been read.
        self.keepalive_lsn = LSN(0)
        #: The server wants to hear from us at once.
        self.reply_requested = False
        #: Counts portions that are over; the frames of one ``read`` are of one portion.
        self.portions_read = 0
        #: Of the open streamed transactions told to ``settled``: those that the source, asked apart
        #: from the stream, says have aborted.
        self.aborted_xids: frozenset[int] = frozenset()

    @property
    def server_version(self) -> int:
        """``server_version_num``, for instance 180004."""
        return self.connection.info.server_version

    def identify(self) -> SystemIdentity:
        """Return what IDENTIFY_SYSTEM would say, from the catalog. Some services keep the system
        identifier secret: then it is empty.
        """
        server = functions.parse_state(self._ask(functions.state_query(""))[0][0])
        identifier = ""
        with suppress(errors.InsufficientPrivilege):
            asked = sql.SQL("SELECT system_identifier FROM pg_catalog.pg_control_system()")
            # The function gives a signed number, IDENTIFY_SYSTEM an unsigned one.
            identifier = str(int(self._ask(asked)[0][0][0] or 0) % (1 << 64))
        version = self._ask(sql.SQL("SELECT pg_catalog.version()"))[0][0][0] or b""
        self._on_linux = b"linux" in version.lower()
        self._timeline = server.timeline
        return SystemIdentity(identifier, server.timeline, server.position)

    def fork_point(self, timeline: int, left: int) -> LSN | None:
        """Return the position at which the server's ``timeline`` forked off the earlier timeline
        ``left``; None where that is not known. It reads the timeline's history file, which needs
        the role pg_read_server_files.
        """
        name = sql.Literal(f"pg_wal/{timeline:08X}.history")
        try:
            rows = self._ask(sql.SQL("SELECT pg_catalog.pg_read_file({})").format(name))[0]
        except errors.Error:
            return None
        return forked_at((rows[0][0] or b"").decode(errors="replace"), left)

    def start(self, slot: str, lsn: LSN, options: Mapping[str, str]) -> None:
        """Peek at one record with the plugin's ``options``, so that what is wrong with the slot or
        the options shows here. Raises ``SourceProblem``, ``psycopg.Error``.
        """
        self._slot, self._options = slot, dict(options)
        self._stored_lsn = lsn
        server = functions.parse_state(self._ask(functions.state_query(slot))[0][0])
        self._check(server)
        # Decodes one record, from where it must begin anyway.
        begin = server.slot_lsn("restart_lsn")
        self._ask(functions.peek(slot, self._options, upto_lsn=begin, upto_changes=1))
        self.server_lsn = server.position

    def add_waker(self, descriptor: int) -> None:
        """Have ``wait`` return when this descriptor becomes readable, too."""
        self._queries.watch(descriptor)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait until something can be read, or the next query is due, or a waker wakes us, or
        ``timeout_seconds`` are over. Returns whether a waker woke us.
        """
        if not self._queries.running and self._settled:
            timeout_seconds = min(timeout_seconds, self._pacing.seconds_to_next())
        return self._queries.wait(timeout_seconds)

    def read(self, max_frames: int, max_bytes: int) -> list[bytes]:
        """Return the frames that have arrived, and begin the next state query or peek when it is
        due; never blocks. Raises ``SourceProblem`` where the slot is gone, was moved, or is read by
        others for too long, and ``psycopg.Error``.
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
        """Never: its connection does not hold what a peek gave."""
        return False

    def settled(self, stored_lsn: int, open_xids: Collection[int]) -> None:
        """Take note that everything read so far is stored, so that the slot may be advanced and the
        next peek begin.

        ``stored_lsn``: up to where the store has everything. ``open_xids``: streamed transactions
        whose end is still to come, whose outcome the next state query asks for.
        """
        self._stored_lsn = max(self._stored_lsn, stored_lsn)
        self._open_xids = open_xids
        self._settled = True
        if self._step != "peek":
            self._pacing.stored()

    def confirm(self, stored_lsn: int, *, clock_us: int) -> None:
        """Take note that everything up to ``stored_lsn`` is stored: the next state query advances
        the slot to it.
        """
        self._stored_lsn = max(self._stored_lsn, stored_lsn)
        self.reply_requested = False

    def close(self) -> None:
        """Cancel the query that runs, advance the slot to what is stored, and close the connection.
        Raises nothing.
        """
        try:
            if self._queries.running:
                self.connection.cancel_safe(timeout=_CLOSE_SECONDS)
                with suppress(errors.QueryCanceled):
                    self._queries.finish(time.monotonic() + _CLOSE_SECONDS)
            if self._stored_lsn > self._advanced_lsn and self._slot:
                self._ask(self._advance(), seconds=_CLOSE_SECONDS)
        except psycopg.Error:
            pass  # the connection is gone, or the server slow: the next session advances it
        finally:
            self.connection.close()

    def _go_on(self) -> None:
        """What ran has ended: take it in, and begin what comes next if it is time."""
        ended, self._step = self._step, ""
        if ended == "state":
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
        elif ended == "peek":
            self._portion_over()
        elif self._settled and self._pacing.seconds_to_next() <= 0:
            self._ask_state()

    def _ask_state(self) -> None:
        """The cheap question: is there anything new, and is the slot as we left it?"""
        asked: list[sql.Composable] = []
        if self._stored_lsn > self._advanced_lsn:
            self._advancing_lsn = self._stored_lsn
            asked.append(self._advance())
        self._send("state", [*asked, functions.state_query(self._slot, self._open_xids)])

    def _begin_peek(self, server: ServerState, light: bool) -> None:
        """Everything up to where the server is, or as much of it as one portion takes."""
        self._rows = 0
        self._checked = False
        self._light = light and "streaming" in self._options
        self.aborted_xids = frozenset(
            x for x, status in server.statuses.items() if status == "aborted"
        )
        options = dict(self._options)
        if light:
            options.pop("streaming", None)
        else:
            self._fully_peeked_lsn = self._upto
        self._most = self._pacing.begin(light=light)
        wanted = functions.peek(self._slot, options, upto_lsn=self._upto, upto_changes=self._most)
        settings = functions.settings(
            self.server_version, self._client_encoding, on_linux=self._on_linux
        )
        self._send("peek", [functions.state_query(self._slot), *settings, wanted])

    def _portion_over(self) -> None:
        self.portions_read += 1
        complete = self._rows < self._most
        self._busy_tries = 0
        self.server_lsn = max(self.server_lsn, self._upto)
        if complete:
            self._peeked_lsn = max(self._peeked_lsn, self._upto)
            # Beyond this the server would not send open transactions again before they grow: not
            # to be confirmed before they were seen up to it.
            if self._fully_peeked_lsn == self._upto:
                self.keepalive_lsn = self._upto
        self._pacing.over(complete=complete, open_streams=bool(self._open_xids))

    def _check(self, server: ServerState) -> None:
        check_left_alone(server, self._slot, timeline=self._timeline, stored_lsn=self._stored_lsn)

    def _try_later(self) -> None:
        """The slot is being read by another session, perhaps for a moment only."""
        self._step = ""
        self._busy_tries += 1
        if self._busy_tries > _BUSY_TRIES:
            raise trouble("slot_in_use", slot=self._slot)
        self._pacing.later(_BUSY_SECONDS)

    def _advance(self) -> sql.Composable:
        return functions.advance(self._slot, self._stored_lsn, self._timeline)

    def _send(self, step: str, statements: list[sql.Composable]) -> None:
        self._step = step
        # The comment is for those who look into pg_stat_activity.
        self._queries.send(f"/* replview: {step} */ ".encode() + functions.query_string(statements))

    def _ask(self, *statements: sql.Composable, seconds: float = _ANSWER_SECONDS) -> list[_Rows]:
        query = functions.query_string(list(statements))
        return self._queries.run(query, time.monotonic() + seconds)
