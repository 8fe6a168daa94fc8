"""TCP proxies that fail on demand: they cut, half-close, delay, and swallow everything.

One stands on each link of each receiver: to the source, to the store. What a link does is changed
from any thread; the links themselves run on one event loop in a thread of its own.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

_PIECE_BYTES = 65_536


class Proxies:
    """The event loop of all links; a context manager that ends them with it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._links: list[Link] = []

    def __enter__(self) -> "Proxies":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for link in self._links:
            self._run(link.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def link(self, port_of_server: Callable[[], int]) -> "Link":
        """A new link to a server on 127.0.0.1 whose port is asked for at each connection."""
        link = Link(self._run, port_of_server)
        self._run(link.open)
        self._links.append(link)
        return link

    def _run(self, action: Callable[[], object]) -> None:
        """Do something on the loop, and wait until it is done."""

        async def act() -> None:
            done = action()
            if asyncio.iscoroutine(done):
                await done

        asyncio.run_coroutine_threadsafe(act(), self._loop).result(20)


class Link:
    """One listening port and the connections that go through it."""

    def __init__(
        self, run: Callable[[Callable[[], object]], None], port_of_server: Callable[[], int]
    ) -> None:
        self._run = run
        self._port_of_server = port_of_server
        self._writers: dict[asyncio.StreamWriter, str] = {}
        self._pumps: set[asyncio.Task[None]] = set()
        self._cut_next = False
        self._delay_seconds = 0.0
        #: The port to which clients connect.
        self.port = 0

    async def open(self) -> None:
        """Listen; runs on the loop."""
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and end every connection; runs on the loop."""
        self._server.close()
        self._abort("client", "server")
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    # Faults may call these methods from any thread.

    def cut(self) -> None:
        """Let half of the next piece through, then reset both sides; at once if nothing flows."""

        async def after_the_next_piece() -> None:
            self._cut_next = True
            await asyncio.sleep(0.5)
            if self._cut_next:
                self._cut_next = False
                self._abort("client", "server")

        self._run(after_the_next_piece)

    def half_close(self, side: str) -> None:
        """End what goes to the ``client`` or to the ``server``; the other way stays open."""

        def end() -> None:
            for writer, to in self._writers.items():
                if to == side and not writer.is_closing():
                    with suppress(OSError, RuntimeError):
                        writer.write_eof()

        self._run(end)

    def swallow(self) -> None:
        """From now on nothing gets through either way, and nothing closes."""
        self._run(lambda: self._flowing.clear())

    def drop(self, *sides: str) -> None:
        """Reset the connections on these sides alone, as a kernel that gives a peer up does."""
        self._run(lambda: self._abort(*sides))

    def flow(self) -> None:
        """Let everything through again, at once."""

        def restore() -> None:
            self._delay_seconds = 0.0
            self._flowing.set()

        self._run(restore)

    def delay(self, seconds: float) -> None:
        """Every piece waits this long, each way."""

        def slow() -> None:
            self._delay_seconds = seconds

        self._run(slow)

    # The connections.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pumps.add(task)
        try:
            await self._flowing.wait()
            port = self._port_of_server()
            with suppress(OSError):
                server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
                self._writers |= {writer: "client", server_writer: "server"}
                await asyncio.gather(
                    self._pump(reader, server_writer), self._pump(server_reader, writer)
                )
                server_writer.close()
                del self._writers[server_writer]
        except asyncio.CancelledError:
            pass
        finally:
            self._writers.pop(writer, None)
            writer.close()
            self._pumps.discard(task)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, RuntimeError):
            while piece := await reader.read(_PIECE_BYTES):
                if self._delay_seconds:
                    await asyncio.sleep(self._delay_seconds)
                await self._flowing.wait()
                if self._cut_next:
                    self._cut_next = False
                    writer.write(piece[: len(piece) // 2])
                    self._abort("client", "server")
                    return
                writer.write(piece)
                await writer.drain()
        await self._flowing.wait()
        # libpq's side closes as a whole; a half-closed one is what half_close is for.
        with suppress(OSError, RuntimeError):
            writer.close()

    def _abort(self, *sides: str) -> None:
        for writer, to in list(self._writers.items()):
            if to in sides:
                writer.transport.abort()
