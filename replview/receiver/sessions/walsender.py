"""A walsender session: START_REPLICATION and the CopyData frames after it, without blocking.

psycopg has no replication API, so everything here uses its ``pq`` layer. Such a connection knows
only the simple protocol, and only autocommit mode.

Source: PostgreSQL documentation, "Streaming Replication Protocol"; "Logical Streaming Replication
Protocol".
"""

import ctypes
import os
import select
import socket
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

import psycopg
from django.conf import settings
from psycopg import pq

from decoder.replication import PrimaryKeepalive, StandbyStatusUpdate, decode_frame
from decoder.scalars import LSN
from replview.catalog.naming import literal, quoted
from replview.receiver.connecting import replication_conninfo
from replview.receiver.incarnation import SystemIdentity
from replview.receiver.large_values import SWOLLEN_BYTES, Pieces, Spooled, read_large
from replview.receiver.problems import StreamEnded, trouble
from replview.receiver.sessions.pacing import Silence

#: After the socket woke us with nothing buffered, wait so that the server's small packets arrive
#: together: a third of the CPU at one row a transaction, at no cost in throughput.
_GATHER_SECONDS = 0.001
_XLOGDATA = ord("w")
#: How long closing waits until the server has read our last word.
_DRAIN_SECONDS = 1.0
#: A message longer than this is read in pieces of it.
_PIECE_BYTES: Final = 1024 * 1024
#: PostgreSQL itself makes none of more than 1 GiB (MaxAllocSize); with what TLS adds.
MOST_MESSAGE_BYTES = 1100 * 1024 * 1024
#: ``tcpi_bytes_received`` in Linux's ``struct tcp_info``.
_RECEIVED = slice(128, 136)
#: libpq keeps the room that its largest message took until the connection is closed: so long after
#: the last large one, and after the first, it is opened anew.
SWOLLEN_SECONDS, _LONGEST_SWOLLEN_SECONDS = 5.0, 30.0


@cache
def _get_line_async() -> Any:
    """libpq's ``PQgetlineAsync``: what psycopg does not have. It gives a message out in pieces,
    where ``PQgetCopyData`` makes a copy of the whole.
    """
    if pq.__impl__ == "python":
        library = import_module("psycopg.pq._pq_ctypes").pq
    else:
        # The very libpq that this module is linked with.
        library = ctypes.CDLL(sys.modules[pq.PGconn.__module__].__file__)
    function = library.PQgetlineAsync
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    function.restype = ctypes.c_int
    return function


class ReplicationSession:
    """One replication connection, from connecting to closing."""

    def __init__(self, conninfo: str, *, client_encoding: str = "UTF8") -> None:
        """Connect to the source as a walsender session. Raises ``psycopg.OperationalError``."""
        self.connection: psycopg.Connection[Any] = psycopg.Connection.connect(
            replication_conninfo(conninfo, client_encoding=client_encoding),
            autocommit=True,
            prepare_threshold=None,
        )
        self._pgconn = self.connection.pgconn
        self._poll = select.poll()
        self._socket = self._pgconn.socket
        self._poll.register(self._socket, select.POLLIN)
        self._sending = select.poll()
        self._sending.register(self._socket, select.POLLIN | select.POLLOUT)
        self._streaming = False
        #: The server's position as last heard, in keepalives or data.
        self.server_lsn = LSN(0)
        #: The same in keepalives alone: everything before it that is for us was sent before it.
        self.keepalive_lsn = LSN(0)
        #: A keepalive asked for an answer.
        self.reply_requested = False
        #: All of it is one portion that is never over: see ``opening.Session``.
        self.portions_read = 0
        self.aborted_xids: frozenset[int] = frozenset()
        #: What ended the stream, while the frames before it are handed out.
        self._ending: Exception | None = None
        #: Whether the server is still there.
        self.silence = Silence(time.monotonic(), settings.WALSENDER_TIMEOUT_SECONDS)
        self._prepare_for_large_messages()

    def _prepare_for_large_messages(self) -> None:
        #: Whether what comes next stands inside a stream block; None: it is not of pgoutput.
        self.in_stream: bool | None = False
        #: Python's name of the encoding that text arrives in.
        self.encoding = "utf-8"
        #: What is large of the frames last read.
        self.spooled: list[Spooled] = []
        self._temporary = False
        #: Of libpq's own structure, which psycopg's types do not name.
        self._address: int = getattr(self._pgconn, "pgconn_ptr")  # noqa: B009
        self._piece = (ctypes.c_char * _PIECE_BYTES)()
        self._view = memoryview(self._piece).cast("B")
        #: The first piece of a large message is in there already.
        self._begun = False
        #: When the first and the last large message came.
        self._swollen_at: tuple[float, float] | None = None
        self._tcp = socket.socket(fileno=os.dup(self._socket))
        #: What had come before the message that is under way.
        self._received: int | None = None

    @property
    def server_version(self) -> int:
        """``server_version_num``, for instance 180004."""
        return self.connection.info.server_version

    def identify(self) -> SystemIdentity:
        """Run IDENTIFY_SYSTEM: cluster, timeline and WAL position. Raises ``psycopg.Error``."""
        row = self.connection.execute("IDENTIFY_SYSTEM").fetchone()
        assert row is not None
        return SystemIdentity(_text(row[0]), int(row[1]), LSN.parse(_text(row[2])))

    def fork_point(self, timeline: int, left: int) -> LSN | None:
        """Return the position at which the server's ``timeline`` forked off the earlier timeline
        ``left``, from the timeline's history file. None where it did not fork off that one, or
        where the server does not have the file.
        """
        try:
            row = self.connection.execute(f"TIMELINE_HISTORY {int(timeline)}".encode()).fetchone()
        except psycopg.Error:
            return None  # the first timeline has no history; an archive may have swept it away
        return None if row is None else forked_at(_text(row[1]), left)

    def create_temporary_slot(self, name: str, *, two_phase: bool) -> LSN:
        """Create a slot that the server drops when this connection closes, and return its
        consistent point: it sends what commits after that. Raises ``psycopg.Error``.
        """
        self._temporary = True
        if self.server_version >= 150000:
            options = f"(SNAPSHOT 'nothing'{', TWO_PHASE true' if two_phase else ''})"
        else:
            options = "NOEXPORT_SNAPSHOT"
        row = self.connection.execute(
            f"CREATE_REPLICATION_SLOT {quoted(name)} TEMPORARY LOGICAL pgoutput {options}".encode()
        ).fetchone()
        assert row is not None
        return LSN.parse(_text(row[1]))

    def start(self, slot: str, lsn: LSN, options: Mapping[str, str]) -> None:
        """Run START_REPLICATION from ``lsn`` on, with the plugin's ``options``. Raises
        ``psycopg.Error`` with the server's SQLSTATE.
        """
        given = ", ".join(f"{quoted(n)} {literal(v)}" for n, v in options.items())
        query = f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {lsn} ({given})"
        self._pgconn.send_query(query.encode())
        self._flush()
        while True:
            self._pgconn.consume_input()
            if not self._pgconn.is_busy():
                break
            self._poll.poll(1000)
        result = self._pgconn.get_result()
        if result is None or result.status != pq.ExecStatus.COPY_BOTH:
            raise _error(result)
        self._streaming = True

    def add_waker(self, descriptor: int) -> None:
        """Have ``wait`` return when this descriptor becomes readable, too."""
        self._poll.register(descriptor, select.POLLIN)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait until something can be read, or a waker wakes us, or ``timeout_seconds`` are over.
        Returns whether a waker woke us.
        """
        ready = self._poll.poll(max(0.0, timeout_seconds) * 1000)
        woken = False
        for descriptor, _ in ready:
            if descriptor == self._socket:
                self.silence.heard(time.monotonic())
                time.sleep(_GATHER_SECONDS)
            else:
                woken = True
        return woken

    def read(self, max_frames: int, max_bytes: int) -> list[bytes]:
        """Return the XLogData frames that have arrived, about ``max_frames`` or ``max_bytes`` of
        them at most; never blocks. One with large values comes alone, with words in their places,
        which ``spooled`` exchanges.

        Keepalives among them are not returned, but set ``server_lsn``, ``keepalive_lsn`` and
        ``reply_requested``. Raises ``StreamEnded``, ``SourceProblem`` or ``psycopg.Error`` when the
        server has ended the stream, or has not answered for too long.
        """
        if self._ending is not None:
            raise self._ending
        frames: list[bytes] = []
        size = 0
        get = self._pgconn.get_copy_data
        in_pieces = self._begun or self._swollen_at is not None
        while len(frames) < max_frames and size < max_bytes:
            length, buffer = (0, b"") if in_pieces else get(1)
            if length < 0:
                self._end_of_stream(frames)
                break
            # What was not whole before may be large.
            frame = bytes(buffer) if length else self._next_in_pieces(frames)
            if not frame:
                break
            if frame[0] == _XLOGDATA:
                frames.append(frame)
                size += len(frame)
            else:
                self._take_keepalive(frame)
            if not length and self.spooled:
                break
        now = time.monotonic()
        if frames:
            self.silence.heard(now)
            sent = int.from_bytes(frames[-1][9:17], "big")
            if sent > self.server_lsn:
                self.server_lsn = LSN(sent)
        elif self.silence.is_over_long(now):
            raise trouble("silent")
        return frames

    def _next_in_pieces(self, frames: Sequence[bytes]) -> bytes:
        """The next message, of which there may be too much to hold; empty: none is whole, or it is
        large, and ``frames`` before it must be decoded first.
        """
        if self.in_stream is None:
            # A text, of which only its length tells where it ends.
            self._pgconn.consume_input()
            size, buffer = self._pgconn.get_copy_data(1)
            if size > 0:
                return bytes(buffer)
        else:
            size = _PIECE_BYTES if self._begun else self._take_piece()
            if size == 0:
                self._pgconn.consume_input()
                size = self._take_piece()
        if size < 0:
            self._end_of_stream(frames)
        if size <= 0:
            self._check_unfinished(bool(frames))
            return b""
        self._begun = size == _PIECE_BYTES
        if not self._begun:
            return self._view[:size].tobytes()
        return b"" if frames else self._large_message()

    def _large_message(self) -> bytes:
        self._begun = False
        assert self.in_stream is not None
        pieces = Pieces(self._view, lambda: self._view[: max(0, self._take_piece())])
        frame, self.spooled = read_large(pieces, in_stream=self.in_stream, encoding=self.encoding)
        if pieces.size_bytes > SWOLLEN_BYTES:
            now = time.monotonic()
            self._swollen_at = (self._swollen_at or (now, now))[0], now
        return frame

    def _take_piece(self) -> int:
        """How many bytes of the next message are in ``_view`` now; 0: it is not whole yet; -1: the
        stream has ended, which libpq takes note of: its result is next, as after ``get_copy_data``.
        """
        return int(_get_line_async()(self._address, self._piece, _PIECE_BYTES))

    def _check_unfinished(self, something_came: bool) -> None:
        """Raise ``SourceProblem`` where more came of one message than any message has: libpq would
        hold all of it.
        """
        if something_came or sys.platform != "linux":
            self._received = None
            return
        try:
            told = self._tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.stop)
        except OSError:
            return  # a Unix socket: libpq's own limit is 2 GiB
        received = int.from_bytes(told[_RECEIVED], sys.byteorder)
        if self._received is None:
            self._received = received
        elif received - self._received > MOST_MESSAGE_BYTES:
            raise trouble("endless_message")

    def is_swollen(self) -> bool:
        """Whether the connection is to be opened anew, to be rid of the room that a large message
        took. A temporary slot would end with it.
        """
        if self._swollen_at is None or self._temporary:
            return False
        now, (first, last) = time.monotonic(), self._swollen_at
        return now - last > SWOLLEN_SECONDS or now - first > _LONGEST_SWOLLEN_SECONDS

    def settled(self, stored_lsn: int, open_xids: Collection[int]) -> None:
        """Do nothing: a walsender sends on by itself, whether what it sent is stored or not. A
        ``PollingSession`` advances the slot and peeks again.
        """

    def confirm(self, stored_lsn: int, *, clock_us: int) -> None:
        """Send a status update: everything up to ``stored_lsn`` is stored, and nothing more.

        An unset position must never be filled from what was merely received.
        """
        if self._ending is not None:
            return  # nobody listens; libpq would complain of that instead of what happened
        lsn = LSN(stored_lsn)
        update = StandbyStatusUpdate(
            written=lsn,
            flushed=lsn,
            applied=lsn,
            clock_us=clock_us,
            reply_requested=self.silence.asks(time.monotonic()),
        )
        self._pgconn.put_copy_data(update.encode())
        self._flush()
        self.reply_requested = False

    def close(self) -> None:
        """End the stream in the protocol's way, so that the server has read our last status update,
        and close the connection. Raises nothing.
        """
        try:
            gone = self.silence.is_over_long(time.monotonic())
            ok = not gone and self._pgconn.status == pq.ConnStatus.OK
            if self._streaming and ok and not self._begun:
                self._pgconn.put_copy_end()
                self._flush()
                deadline = time.monotonic() + _DRAIN_SECONDS
                while time.monotonic() < deadline:
                    self._pgconn.consume_input()
                    length, _ = self._pgconn.get_copy_data(1)
                    if length < 0:
                        break
                    if length == 0:
                        self._poll.poll(50)
        except psycopg.Error:
            pass  # the connection is gone already: nothing to end
        finally:
            self._tcp.close()
            self.connection.close()

    def _take_keepalive(self, frame: bytes) -> None:
        message = decode_frame(frame)
        self._received = None
        self.silence.heard(time.monotonic())
        if isinstance(message, PrimaryKeepalive):
            self.keepalive_lsn = message.wal_end
            self.server_lsn = max(self.server_lsn, message.wal_end)
            self.reply_requested = self.reply_requested or message.reply_requested

    def _end_of_stream(self, frames: Sequence[bytes]) -> None:
        """Raise what ended the stream, told once by libpq; after frames, at the next ``read``."""
        result = self._pgconn.get_result()
        self._streaming = False
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            self._ending = _error(result)
        else:
            self._ending = StreamEnded("the server ended the stream: it is stopping or restarting")
        if not frames:
            raise self._ending

    def _flush(self) -> None:
        while self._pgconn.flush():
            # Not select(), which knows no descriptor beyond 1023.
            self._sending.poll(1000)
            self._pgconn.consume_input()


def forked_at(history: str, left: int) -> LSN | None:
    """Return the position at which timeline ``left`` was left, from the text of a history file;
    None where the file does not name it. Source: timeline.c, ``readTimeLineHistory()``.
    """
    for line in history.splitlines():
        fields = line.split()
        if len(fields) >= 2 and fields[0] == str(left):
            return LSN.parse(fields[1])
    return None


def _text(value: str | bytes) -> str:
    """A value of the session; under SQL_ASCII psycopg gives the bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _error(result: Any) -> psycopg.Error:
    if result is None:
        return psycopg.OperationalError("the connection was closed")
    return psycopg.errors.error_from_result(result)
