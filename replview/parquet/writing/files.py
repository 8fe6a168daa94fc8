"""How rows become a Parquet file, whoever writes one: the same layout, whole or not at all.

Row groups end after so many rows, or sooner where rows are wide, so that a range of LSNs leaves
whole groups out; where the batches that are read end does not show in the file.
"""

import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq

from replview.parquet.writing.filesystems import Sink
from replview.parquet.writing.targets import Target

_GROUP_ROWS = 131_072
_GROUP_BYTES = 64 * 1024 * 1024
#: Batches that may wait.
_DEPTH = 2
_END = object()

Item = TypeVar("Item")


def write_file(target: Target, path: str, schema: pa.Schema, groups: Iterable[pa.Table]) -> Sink:
    """Write one file; the sink knows its bytes and checksum.

    Raises ``TargetProblem`` and whatever ``groups`` raises; then there is no file.
    """
    with target.create(path) as sink:
        writer = pq.ParquetWriter(
            sink, schema, compression="zstd", version="2.6", data_page_version="1.0",
            use_dictionary=_repeated(schema),
        )  # fmt: skip
        try:
            for group in groups:
                writer.write_table(group, row_group_size=max(group.num_rows, 1))
        except BaseException:
            sink.abandon()
            raise
        finally:
            # An abandoned sink swallows the footer.
            writer.close()
    return sink


def row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Batches as row groups, each in one piece."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        while rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            table = pa.Table.from_batches(waiting, schema)
            yield table.slice(0, _GROUP_ROWS).combine_chunks()
            rest = table.slice(_GROUP_ROWS)
            waiting, rows, size = rest.to_batches(), rest.num_rows, rest.nbytes
    if rows:
        yield pa.Table.from_batches(waiting, schema).combine_chunks()


def _repeated(schema: pa.Schema) -> list[str]:
    """Columns that are worth a dictionary: texts, which repeat. Numbers and times mostly ascend,
    and are smaller, and sooner written, without.
    """
    return [each.name for each in schema if pa.types.is_string(each.type) and each.name != "_lsn"]


class _Queue(Generic[Item]):
    """Items on their way from one thread to another, until nobody takes them any more."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[object] = queue.Queue(_DEPTH)
        self.stopped = threading.Event()

    def put(self, item: object) -> None:
        """Wait for room; give up once it is stopped."""
        while not self.stopped.is_set():
            try:
                self._waiting.put(item, timeout=0.2)
            except queue.Full:
                continue
            return

    def items(self) -> Iterator[Item]:
        """In their order, to the end."""
        while (item := self._waiting.get()) is not _END:
            yield cast(Item, item)


@contextmanager
def read_ahead(items: Iterator[Item]) -> Iterator[Iterator[Item]]:
    """The items, read by a thread of its own, which ends (and closes them) with the context."""
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
        finally:
            _close(items, failed)
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


def _close(items: Iterator[object], failed: list[BaseException]) -> None:
    """A generator that is left early ends its COPY."""
    close = getattr(items, "close", None)
    if close is not None:
        try:
            close()
        except BaseException as error:
            failed.append(error)
