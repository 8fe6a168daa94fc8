"""Files while they are written: they bear their names only once all of them is there."""

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa

from replview.parquet.writing.addresses import Address
from replview.parquet.writing.problems import problem_of

#: Half-written files begin so; all readers take them for hidden.
WRITING = "_writing-"


def named(half: str) -> str:
    """The name that a half-written file is to bear."""
    return half.removeprefix(WRITING).rpartition("-")[0]


class Sink:
    """What pyarrow writes to; counts and hashes on the way."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self.bytes = 0
        self.closed = False
        self.is_abandoned = False

    def write(self, data: Any) -> int:
        """Append; nothing, once it is abandoned. Raises ``TargetProblem``."""
        view = memoryview(data).cast("B")
        if not self.is_abandoned:
            self._hash.update(view)
            with told():
                self._stream.write(view)
            self.bytes += len(view)
        return len(view)

    def tell(self) -> int:
        """The place of the next byte."""
        return self.bytes

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        """Whoever opened the stream closes it."""
        self.closed = True

    def abandon(self) -> None:
        """Swallow the footer that pyarrow writes when it closes a file that nobody wants."""
        self.is_abandoned = True

    @property
    def sha256(self) -> str:
        """Of all that was written."""
        return self._hash.hexdigest()


class HalfFile(Protocol):
    """A file that is not there yet."""

    def open(self) -> Any:
        """Begin; what is returned has ``write``."""

    def finish(self) -> None:
        """Have it there."""

    def discard(self) -> None:
        """Have nothing there."""


class LocalHalf:
    """Written beside its place, made to last, then renamed."""

    def __init__(self, final: Path) -> None:
        self._final = final
        self._half = final.with_name(f"{WRITING}{final.name}-{secrets.token_hex(4)}")
        self._stream: IO[bytes] | None = None

    def open(self) -> IO[bytes]:
        """Its folder is made as well."""
        self._final.parent.mkdir(parents=True, exist_ok=True)
        # A buffer of its own size class only: pyarrow writes whole pages.
        self._stream = open(self._half, "xb", buffering=1 << 20)  # noqa: SIM115 (closed below)
        return self._stream

    def finish(self) -> None:
        """The name is replaced at one stroke, after the bytes are on the disk."""
        assert self._stream is not None
        try:
            self._stream.flush()
            os.fsync(self._stream.fileno())
            self._stream.close()
            os.replace(self._half, self._final)
            _sync_folder(self._final.parent)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Closing writes what is left in the buffer, which may fail again."""
        if self._stream is not None:
            with suppress(OSError):
                self._stream.close()
        with suppress(OSError):
            self._half.unlink(missing_ok=True)


class StoreHalf:
    """Written under its own name where that appears when it is closed, else beside and moved."""

    def __init__(self, address: Address, final: str) -> None:
        self._filesystem = address.filesystem
        self._makes_folders = address.kind != "objects"
        folder, _, name = final.rpartition("/")
        self._folder, self._final = folder, final
        beside = f"{folder}/{WRITING}{name}-{secrets.token_hex(4)}"
        self._half = beside if address.kind == "hdfs" else final
        self._stream: Any = None

    def open(self) -> Any:
        """Object stores have no folders: to make one would make an object, or a bucket."""
        if self._makes_folders:
            self._filesystem.create_dir(self._folder, recursive=True)
        self._stream = self._filesystem.open_output_stream(self._half, compression=None)
        return self._stream

    def finish(self) -> None:
        """An upload of several parts ends here."""
        try:
            self._stream.close()
            if self._half != self._final:
                with suppress(FileNotFoundError):
                    self._filesystem.delete_file(self._final)
                self._filesystem.move(self._half, self._final)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Closing is what ends an upload, so that nothing of it is billed; then it is deleted."""
        with suppress(OSError, pa.ArrowException):
            self._stream.close()
        with suppress(OSError, pa.ArrowException):
            self._filesystem.delete_file(self._half)


@contextmanager
def told() -> Iterator[None]:
    """A file system's errors as problems."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise problem_of(error) from error


def _sync_folder(folder: Path) -> None:
    """Have the name last, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
