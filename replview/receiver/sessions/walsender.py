"""A walsender session runs START_REPLICATION and reads the CopyData frames, without blocking.

psycopg has no replication API, so this module uses its ``pq`` layer. Such a connection supports
only the simple query protocol, and only autocommit mode.

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

#: Seconds to wait after the socket becomes readable, so that small packets arrive together: it
#: saves a third of the CPU at one row a transaction, at no cost in throughput.
_GATHER_SECONDS = 0.001
_XLOGDATA = ord("w")
#: Seconds that closing waits until the server has read the last status update.
_DRAIN_SECONDS = 1.0
#: A message longer than this is read in pieces of this size.
_PIECE_BYTES: Final = 1024 * 1024
#: Limit of one message: PostgreSQL's own is 1 GiB (MaxAllocSize), and TLS adds some.
MOST_MESSAGE_BYTES = 1100 * 1024 * 1024
#: Place of ``tcpi_bytes_received`` in Linux's ``struct tcp_info``.
_RECEIVED = slice(128, 136)
#: Seconds after the last and after the first large message until the connection is opened anew:
#: libpq keeps the buffer of its largest message until the connection is closed.
SWOLLEN_SECONDS, _LONGEST_SWOLLEN_SECONDS = 5.0, 30.0


@cache
def _get_line_async() -> Any:
    """Return libpq's ``PQgetlineAsync``, which psycopg does not offer.

    It returns a message in pieces, where ``PQgetCopyData`` copies the whole message.
    """
    if pq.__impl__ == "python":
        library = import_module("psycopg.pq._pq_ctypes").pq
    else:
        # Load exactly the libpq that psycopg is linked with.
        library = ctypes.CDLL(sys.modules[pq.PGconn.__module__].__file__)
    function = library.PQgetlineAsync
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    function.restype = ctypes.c_int
    return function


class ReplicationSession:
    """A replication connection that streams one slot."""

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
        #: Last known position of the server, from keepalives or data.
        self.server_lsn = LSN(0)
        #: Position of the last keepalive: everything for this slot up to it was sent before it.
        self.keepalive_lsn = LSN(0)
        #: True when a keepalive requested an answer.
        self.reply_requested = False
        #: The whole stream is one portion that is never over: see ``opening.Session``.
        self.portions_read = 0
        self.aborted_xids: frozenset[int] = frozenset()
        #: The error that ended the stream; it is raised once the frames before it were returned.
        self._ending: Exception | None = None
        #: The server's signs of life.
        self.silence = Silence(time.monotonic(), settings.WALSENDER_TIMEOUT_SECONDS)
        self._prepare_for_large_messages()

    def _prepare_for_large_messages(self) -> None:
        #: True when the next frame is inside a stream block; None: the plugin is not pgoutput.
        self.in_stream: bool | None = False
        #: Python's name of the encoding of received text.
        self.encoding = "utf-8"
        #: Large values of the frames last read.
        self.spooled: list[Spooled] = []
        self._temporary = False
        #: Address of libpq's own structure, which psycopg's types do not declare.
        self._address: int = getattr(self._pgconn, "pgconn_ptr")  # noqa: B009
        self._piece = (ctypes.c_char * _PIECE_BYTES)()
        self._view = memoryview(self._piece).cast("B")
        #: True when the first piece of a large message is in the buffer.
        self._begun = False
        #: Monotonic times of the first and the last large message.
        self._swollen_at: tuple[float, float] | None = None
        self._tcp = socket.socket(fileno=os.dup(self._socket))
        #: Bytes that the socket had received before the unfinished message.
        self._received: int | None = None

    @property
    def server_version(self) -> int:
        """Return ``server_version_num``, for instance 180004."""
        return self.connection.info.server_version

    def identify(self) -> SystemIdentity:
        """Run IDENTIFY_SYSTEM: cluster, timeline and WAL position. Raises ``psycopg.Error``."""
        row = self.connection.execute("IDENTIFY_SYSTEM").fetchone()
        assert row is not None
        return SystemIdentity(_text(row[0]), int(row[1]), LSN.parse(_text(row[2])))

    def fork_point(self, timeline: int, left: int) -> LSN | None:
        """Return the position at which ``timeline`` forked off the earlier timeline ``left``.

        It is read from the timeline's history file. None where the server does not have the file,
        or where it does not mention ``left``.
        """
        try:
            row = self.connection.execute(f"TIMELINE_HISTORY {int(timeline)}".encode()).fetchone()
        except psycopg.Error:
            return None  # the first timeline has no history file, and others may have been removed
        return None if row is None else forked_at(_text(row[1]), left)

    def create_temporary_slot(self, name: str, *, two_phase: bool) -> LSN:
        """Create a slot that exists until this connection closes; return its consistent point.

        The slot sends what commits after that point. Raises ``psycopg.Error``.
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
        """Run START_REPLICATION from ``lsn`` on, with the plugin's ``options``.

        Raises ``psycopg.Error`` with the server's SQLSTATE.
        """
        option_list = ", ".join(f"{quoted(n)} {literal(v)}" for n, v in options.items())
        query = f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {lsn} ({option_list})"
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
        """Make ``wait`` return when this descriptor becomes readable, too."""
        self._poll.register(descriptor, select.POLLIN)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for data, a waker, or the timeout; return whether a waker woke."""
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
        """Return XLogData frames that have arrived, up to ``max_frames`` or about ``max_bytes``.

        Never blocks. A frame with large values is returned alone, with a word for each value of
        ``spooled``. Keepalives are not returned, but set ``server_lsn``, ``keepalive_lsn`` and
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
            # A message that was not complete before may be large.
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
        """Return the next message, which may be too large to hold; empty if it must wait.

        It must wait while it is not complete, or if it is large and ``frames`` before it must be
        decoded first.
        """
        if self.in_stream is None:
            # The text of another plugin has no structure, so it must be read whole.
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
        """Read a piece of the next message into ``_view``, and return its bytes.

        0: the message is not complete; -1: the stream has ended, and its result is next in libpq,
        as after ``get_copy_data``.
        """
        return int(_get_line_async()(self._address, self._piece, _PIECE_BYTES))

    def _check_unfinished(self, something_came: bool) -> None:
        """Raise ``SourceProblem`` if an unfinished message is longer than any message can be.

        libpq would buffer all of it.
        """
        if something_came or sys.platform != "linux":
            self._received = None
            return
        try:
            tcp_info = self._tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.stop)
        except OSError:
            return  # a Unix socket, where libpq's own limit of 2 GiB applies
        received = int.from_bytes(tcp_info[_RECEIVED], sys.byteorder)
        if self._received is None:
            self._received = received
        elif received - self._received > MOST_MESSAGE_BYTES:
            raise trouble("endless_message")

    def is_swollen(self) -> bool:
        """Return whether the connection must be opened anew to free a large message's buffer.

        False for a temporary slot, which would end with the connection.
        """
        if self._swollen_at is None or self._temporary:
            return False
        now, (first, last) = time.monotonic(), self._swollen_at
        return now - last > SWOLLEN_SECONDS or now - first > _LONGEST_SWOLLEN_SECONDS

    def settled(self, stored_lsn: int, open_xids: Collection[int]) -> None:
        """Do nothing: a walsender sends on, whether what it sent is stored or not.

        A ``PollingSession`` advances the slot and peeks again.
        """

    def confirm(self, stored_lsn: int, *, clock_us: int) -> None:
        """Send a status update: everything up to ``stored_lsn`` is stored, and nothing more.

        An unset position must never be filled from what was merely received.
        """
        if self._ending is not None:
            return  # the stream has ended; an error of libpq would hide the cause
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
        """End the stream so that the server reads the last status update, and close.

        Raises nothing.
        """
        try:
            is_silent = self.silence.is_over_long(time.monotonic())
            is_usable = not is_silent and self._pgconn.status == pq.ConnStatus.OK
            if self._streaming and is_usable and not self._begun:
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
            pass  # the connection is gone already
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
        """Raise what ended the stream, or store it for the next ``read`` if frames come first."""
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
    """Return the position at which timeline ``left`` ended, from the text of a history file.

    None where the file does not mention it. Source: timeline.c, ``readTimeLineHistory()``.
    """
    for line in history.splitlines():
        fields = line.split()
        if len(fields) >= 2 and fields[0] == str(left):
            return LSN.parse(fields[1])
    return None


def _text(value: str | bytes) -> str:
    """Return a value of the session as text; under SQL_ASCII psycopg returns bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _error(result: Any) -> psycopg.Error:
    if result is None:
        return psycopg.OperationalError("the connection was closed")
    return psycopg.errors.error_from_result(result)
