"""A small TCP proxy whose network fails on demand: cut, held up, half closed, slow, corrupted."""

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

_CHUNK = 65536
_LOOK_SECONDS = 0.05
#: Turns a chunk into what is passed on.
Rewrite = Callable[[bytes], bytes]


class Direction:
    """One direction of a proxy's connections: passed on, held up, delayed or rewritten."""

    def __init__(self) -> None:
        self._flows = threading.Event()
        self._flows.set()
        #: Each chunk comes so much later.
        self.delay_seconds = 0.0
        self.rewrite: Rewrite | None = None

    def hold(self) -> None:
        """Nothing comes through any more, and nothing is closed: its host is gone."""
        self._flows.clear()

    def release(self) -> None:
        """All that waited comes, and more."""
        self._flows.set()

    @property
    def held(self) -> bool:
        """Return True if the direction passes nothing on."""
        return not self._flows.is_set()

    def pass_on(self, chunk: bytes) -> bytes:
        """The chunk as it arrives, when it does."""
        if self.delay_seconds:
            time.sleep(self.delay_seconds)
        return self.rewrite(chunk) if self.rewrite else chunk


class Proxy:
    """Listens on a port of its own and connects to ``port``; a context manager."""

    def __init__(self, port: int) -> None:
        self.upstream_port = port
        self.to_server = Direction()
        self.to_client = Direction()
        #: New connections are closed as soon as they come.
        self.refusing = False
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(5)

    def dsn(self, dsn: str) -> str:
        """Return the address with the proxy's port."""
        parts = urlsplit(dsn)
        credentials = parts.netloc.rpartition("@")[0]
        return urlunsplit(parts._replace(netloc=f"{credentials}@127.0.0.1:{self.port}"))

    def freeze(self) -> None:
        """The host vanishes: nothing is passed on or closed, in either direction."""
        self.to_server.hold()
        self.to_client.hold()

    def thaw(self) -> None:
        """The host is back, and with it all that was under way."""
        self.to_server.release()
        self.to_client.release()

    def cut(self) -> None:
        """Reset every connection."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    end.shutdown(socket.SHUT_RD)  # wakes the thread that reads it
                end.close()

    def half_close(self) -> None:
        """The server's side of every connection ends; the client's stays open."""
        with self._lock:
            for client, _ in self._pairs:
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_WR)

    @property
    def connections(self) -> int:
        """Connections that are open now."""
        with self._lock:
            return len(self._pairs)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                if not select.select([self._listener], [], [], _LOOK_SECONDS)[0]:
                    continue
                client, _ = self._listener.accept()
            except (OSError, ValueError):
                return
            self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            if self.refusing:
                raise ConnectionRefusedError
            server = socket.create_connection(("127.0.0.1", self.upstream_port), 10)
        except OSError:
            client.close()
            return
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = (client, server)
        with self._lock:
            self._pairs.append(pair)
        for arguments in ((client, server, self.to_server), (server, client, self.to_client)):
            thread = threading.Thread(target=self._pump, args=[*arguments, pair], daemon=True)
            self._threads.append(thread)
            thread.start()

    def _pump(
        self,
        reading: socket.socket,
        writing: socket.socket,
        direction: Direction,
        pair: tuple[socket.socket, socket.socket],
    ) -> None:
        try:
            while not self._closed.is_set():
                if direction.held:
                    if pair not in self._pairs:
                        return
                    time.sleep(_LOOK_SECONDS)
                    continue
                if not select.select([reading], [], [], _LOOK_SECONDS)[0]:
                    continue
                chunk = reading.recv(_CHUNK)
                if not chunk:
                    break
                chunk = direction.pass_on(chunk)
                while direction.held and pair in self._pairs and not self._closed.is_set():
                    time.sleep(_LOOK_SECONDS)
                writing.sendall(chunk)
            writing.shutdown(socket.SHUT_WR)
        except (OSError, ValueError):
            pass  # cut, or the other end is gone
        finally:
            self._forget(pair)

    def _forget(self, pair: tuple[socket.socket, socket.socket]) -> None:
        """One side ended: end the other, as a router that lost the connection would."""
        with self._lock:
            if pair in self._pairs:
                self._pairs.remove(pair)
        for end in pair:
            end.close()
