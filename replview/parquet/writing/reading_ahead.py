"""Read items ahead of their use, by a separate thread, through a short queue."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar, cast

#: Batches that may wait in the queue.
_DEPTH = 2
_END = object()

Item = TypeVar("Item")


class _Queue(Generic[Item]):
    """A queue of items from one thread to another, until the receiving thread stops."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[object] = queue.Queue(_DEPTH)
        self.stopped = threading.Event()

    def put(self, item: object) -> None:
        """Wait for room, and add the item; give up once the queue is stopped."""
        while not self.stopped.is_set():
            try:
                self._waiting.put(item, timeout=0.2)
            except queue.Full:
                continue
            return

    def items(self) -> Iterator[Item]:
        """Yield the items in their order, to the end."""
        while (item := self._waiting.get()) is not _END:
            yield cast(Item, item)


@contextmanager
def read_ahead(items: Iterator[Item]) -> Iterator[Iterator[Item]]:
    """Yield the items, read by a separate thread, which ends (and closes them) with the context."""
    waiting: _Queue[Item] = _Queue()
    failed: list[BaseException] = []

    def read() -> None:
        try:
            for item in items:
                waiting.put(item)
                if waiting.stopped.is_set():
                    break
        except BaseException as error:
            failed.append(error)
        try:
            # A generator that is left early ends its COPY.
            getattr(items, "close", lambda: None)()
        except BaseException as error:
            failed.append(error)
        waiting.put(_END)

    def give() -> Iterator[Item]:
        yield from waiting.items()
        if failed:
            raise failed[0]

    thread = threading.Thread(target=read, name="replview-read-ahead", daemon=True)
    thread.start()
    try:
        yield give()
    finally:
        waiting.stopped.set()
        thread.join()
