"""A target is a folder for slices, in which a file appears under its name only when complete.

A local file (and one of HDFS) is written under a hidden name beside its own, then renamed. To an
object store a file is sent once it is complete; only its manifest and ``_SUCCESS`` say whether a
slice is whole. A write that fails leaves the file that had the name before.
"""

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Self

import orjson
import pyarrow as pa
import pyarrow.fs as pa_fs

from replview.parquet.writing import filesystems
from replview.parquet.writing.problems import TargetProblem, raising_problems

if TYPE_CHECKING:
    import pyarrow.dataset as pads

_TRIAL_BYTES = b"written to prove that this target can be written, and deleted again\n"


@dataclass(frozen=True, slots=True)
class TargetFile:
    """A file in a target."""

    #: The path relative to the target's folder.
    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Target:
    """A folder; every path is relative to it. Whatever fails raises ``TargetProblem``."""

    address: filesystems.Address

    @classmethod
    def of(cls, url: str) -> Self:
        """Open the folder or object-store prefix of a path or URL; it need not exist."""
        return cls(filesystems.open_address(url))

    @property
    def url(self) -> str:
        """Return the address as it was given; a local path is absolute."""
        return self.address.url

    @property
    def is_local(self) -> bool:
        """Return whether the target is a folder of this machine."""
        return self.address.kind == "local"

    @contextmanager
    def create(self, path: str) -> Iterator[filesystems.Sink]:
        """Write a file: whole, or not at all."""
        half = filesystems.in_progress(self.address, self._full(path))
        with raising_problems():
            sink = filesystems.Sink(half.open())
        try:
            yield sink
        except BaseException:
            sink.abandon()
            half.discard()
            raise
        with raising_problems():
            half.finish()

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a small file, over an older one if there is any."""
        with self.create(path) as sink:
            sink.write(data)

    def read_bytes(self, path: str) -> bytes | None:
        """Return the bytes of a small file; None where there is none."""
        with raising_problems():
            try:
                with self.address.filesystem.open_input_stream(self._full(path), None) as stream:
                    return bytes(stream.read())
            except FileNotFoundError:
                return None

    def write_json(self, path: str, document: Mapping[str, object]) -> None:
        """Write a document as JSON that people can read, too."""
        self.write_bytes(path, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")

    def read_json(self, path: str) -> dict[str, Any] | None:
        """Return a small file's document; None: there is none."""
        data = self.read_bytes(path)
        return orjson.loads(data) if data else None

    def dataset(self, path: str) -> "pads.FileSystemDataset":
        """Open a Parquet file as a dataset, to read some rows of it."""
        # Imported late: few callers need it, and the import is slow.
        import pyarrow.dataset as pads

        where = self._full(path)
        with raising_problems():
            return pads.dataset(where, filesystem=self.address.filesystem, format="parquet")

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for random access."""
        with raising_problems():
            return self.address.filesystem.open_input_file(self._full(path))

    def size(self, path: str) -> int | None:
        """Return a file's bytes; None: there is none."""
        with raising_problems():
            info = self.address.filesystem.get_file_info(self._full(path))
        return info.size if info.type == pa_fs.FileType.File else None

    def files(self, folder: str = "", *, deep: bool = False) -> list[TargetFile]:
        """Return the files of a folder, by name; none where it does not exist."""
        chosen = pa_fs.FileSelector(self._full(folder), allow_not_found=True, recursive=deep)
        with raising_problems():
            found = self.address.filesystem.get_file_info(chosen)
        base = len(self.address.path) + 1
        return sorted(
            (
                TargetFile(i.path[base:], i.size or 0)
                for i in found
                if i.type == pa_fs.FileType.File
            ),
            key=lambda each: each.path,
        )

    def folders(self, folder: str = "", *, hidden: bool = False) -> list[str]:
        """Return the names of the folders in a folder that hold data, or of hidden ones.

        There are none if the folder does not exist.
        """
        chosen = pa_fs.FileSelector(self._full(folder), allow_not_found=True)
        with raising_problems():
            found = self.address.filesystem.get_file_info(chosen)
        names = (i.base_name for i in found if i.type == pa_fs.FileType.Directory)
        return sorted(name for name in names if name.startswith(("_", ".")) == hidden)

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        with raising_problems(), suppress(FileNotFoundError):
            self.address.filesystem.delete_file(self._full(path))

    def move(self, path: str, to: str) -> None:
        """Rename a file; an existing file of the new name is replaced."""
        with raising_problems():
            filesystems.move(self.address, self._full(path), self._full(to))

    def delete_folder(self, folder: str) -> None:
        """Delete a folder with all that is in it, if it exists."""
        with raising_problems(), suppress(FileNotFoundError):
            self.address.filesystem.delete_dir(self._full(folder))

    def delete_empty(self, folder: str) -> None:
        """Delete empty folders, from this one upwards to the target's own.

        pyarrow leaves an empty object in place of a folder whose last object it deletes.
        """
        for each in (PurePosixPath(folder), *PurePosixPath(folder).parents):
            chosen = pa_fs.FileSelector(self._full(str(each)), allow_not_found=True)
            if str(each) == "." or self.address.filesystem.get_file_info(chosen):
                return
            with suppress(OSError, pa.ArrowException):
                self.address.filesystem.delete_dir(self._full(str(each)))

    def has_folder(self) -> bool:
        """Return whether the target's folder exists; True where that is unknown."""
        try:
            info = self.address.filesystem.get_file_info(self.address.path)
        except (OSError, pa.ArrowException):
            return True
        return bool(info.type != pa_fs.FileType.NotFound)

    def _full(self, path: str) -> str:
        return f"{self.address.path}/{path}" if path else self.address.path


def test_write(target: Target) -> None:
    """Prove that the target can be written, read and deleted from. Raises ``TargetProblem``."""
    path, address = f"_replview-trial-{secrets.token_hex(4)}", target.address
    missing, was_there = _missing_folder(target), target.has_folder()
    target.write_bytes(path, _TRIAL_BYTES)
    try:
        if target.read_bytes(path) != _TRIAL_BYTES:
            raise TargetProblem(
                "what was written there reads back otherwise", "choose another folder or bucket"
            )
    finally:
        target.delete(path)
        # An empty object stands for the folder now; a path without / is a bucket.
        mine = not was_there and address.kind == "objects" and "/" in address.path
        if mine and not target.files():
            with suppress(OSError, pa.ArrowException):
                address.filesystem.delete_dir(address.path)
        if missing is not None and all(each.is_dir() for each in missing.rglob("*")):
            shutil.rmtree(missing, ignore_errors=True)


# pytest would take the function for a test.
test_write.__test__ = False  # type: ignore[attr-defined]


def _missing_folder(target: Target) -> Path | None:
    """Return the uppermost folder of a local target that does not exist yet."""
    if not target.is_local:
        return None
    path = Path(target.address.path)
    missing = [each for each in (path, *path.parents) if not os.path.lexists(each)]
    return missing[-1] if missing else None
