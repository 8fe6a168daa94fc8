"""Reading and writing side by side: while one batch is encoded, the next ones arrive."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

Item = TypeVar("Item")
#: Batches that may wait.
_DEPTH = 2
_END = object()


@contextmanager
def read_ahead(items: Iterator[Item]) -> Iterator[Iterator[Item]]:
    """The items, read by a thread of its own, which ends (and closes them) with the context."""
    waiting: queue.Queue[object] = queue.Queue(_DEPTH)
    failed: list[BaseException] = []
    stopped = threading.Event()

    def read() -> None:
        try:
            for item in items:
                while not stopped.is_set():
                    try:
                        waiting.put(item, timeout=0.2)
                        break
                    except queue.Full:
                        continue
                if stopped.is_set():
                    break
        except BaseException as error:
            failed.append(error)
        finally:
            _close(items, failed)
            while not stopped.is_set():
                try:
                    waiting.put(_END, timeout=0.2)
                    break
                except queue.Full:
                    continue

    def give() -> Iterator[Item]:
        while (item := waiting.get()) is not _END:
            yield cast(Item, item)
        if failed:
            raise failed[0]

    thread = threading.Thread(target=read, name="replview-read-ahead", daemon=True)
    thread.start()
    try:
        yield give()
    finally:
        stopped.set()
        thread.join()


def _close(items: Iterator[object], failed: list[BaseException]) -> None:
    """A generator that is left early ends its COPY."""
    close = getattr(items, "close", None)
    if close is not None:
        try:
            close()
        except BaseException as error:
            failed.append(error)
