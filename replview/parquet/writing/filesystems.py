"""Write files so that each appears under its name only when it is complete."""

import hashlib
import importlib
import os
import re
import secrets
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pa_fs

from replview.parquet.writing.problems import TargetProblem, problem_of, raising_problems
from replview.text.parsing import has_secret

FilesystemKind = Literal["local", "hdfs", "objects", "other"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
#: pyarrow's own schemes, and their kind; ``s3a`` and ``gcs`` are other names of the same.
_NATIVE: dict[str, FilesystemKind] = {
    "s3": "objects", "gs": "objects", "abfs": "objects", "abfss": "objects",
    "hdfs": "hdfs", "viewfs": "hdfs",
}  # fmt: skip
SAME_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
#: Other schemes → the package that fsspec needs, and fsspec's name of the protocol.
_PACKAGES = {
    "s3": ("s3fs", "s3"), "gs": ("gcsfs", "gs"), "abfs": ("adlfs", "abfs"),
    "abfss": ("adlfs", "abfss"), "az": ("adlfs", "az"), "wasb": ("adlfs", "az"),
    "wasbs": ("adlfs", "az"), "oss": ("ossfs", "oss"), "oci": ("ocifs", "oci"),
    "tos": ("tosfs", "tos"), "obs": ("huaweicloud-obs", "obs"), "swift": ("swiftspec", "swift"),
    "hf": ("huggingface_hub", "hf"), "sftp": ("paramiko", "sftp"), "ssh": ("paramiko", "sftp"),
    "smb": ("smbprotocol", "smb"), "webhdfs": ("requests", "webhdfs"), "dbfs": ("requests", "dbfs"),
    "box": ("boxfs", "box"), "dropbox": ("dropboxdrivefs", "dropbox"), "ftp": ("", "ftp"),
    "memory": ("", "memory"), "webdav": ("webdav4", "webdav"), "lakefs": ("lakefs-spec", "lakefs"),
}  # fmt: skip
_OBJECT_STORES = {"s3", "gs", "abfs", "abfss", "az", "oss", "oci", "tos", "obs", "swift", "hf"}
#: The prefix of half-written files; all readers treat them as hidden.
WRITING = "_writing-"
#: An upload up to this size is collected in memory; a larger one in a temporary file.
_IN_MEMORY_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Address:
    """A file system, and a folder in it."""

    #: The address as shown to users: it holds no secret.
    url: str
    filesystem: pa_fs.FileSystem
    path: str
    kind: FilesystemKind


def open_address(url: str) -> Address:
    """Find the file system of a folder's path or URL. Raises ``TargetProblem``."""
    if not url.strip() or "\0" in url:
        raise TargetProblem(
            "no target is named", "name a folder, or a URL such as s3://bucket/path"
        )
    scheme = _SCHEME.match(url)
    if scheme is None:
        return _local(Path(url))
    name = scheme[1].lower()
    if name == "file":
        return _local(Path(unquote(urlsplit(url).path)))
    _refuse_secrets(url)
    native = SAME_SCHEMES.get(name, name)
    if native in _NATIVE:
        try:
            return _native(url, f"{native}{url[len(scheme[1]) :]}", _NATIVE[native])
        except (NotImplementedError, ImportError, AttributeError):
            # This build of pyarrow does not include the file system.
            pass
    return _by_fsspec(url, native)


def _local(path: Path) -> Address:
    absolute = path.absolute()
    return Address(str(absolute), pa_fs.LocalFileSystem(), absolute.as_posix(), "local")


def _refuse_secrets(url: str) -> None:
    parts = urlsplit(url)
    if has_secret(parts.query) or ":" in parts.netloc.rpartition("@")[0]:
        raise TargetProblem(
            "the address holds credentials, which would be recorded with the export",
            "take them out, and put them into the environment of the one who writes",
        )


def _native(shown: str, url: str, kind: FilesystemKind) -> Address:
    try:
        filesystem, path = pa_fs.FileSystem.from_uri(url)
    except pa.ArrowNotImplementedError as error:
        raise NotImplementedError from error
    except pa.ArrowInvalid as error:
        raise TargetProblem(
            "the address cannot be read",
            "write it as scheme://bucket/path, and options of pyarrow behind a question mark",
        ) from error
    except OSError as error:
        raise problem_of(error) from error
    return Address(shown, filesystem, path.rstrip("/"), kind)


def _by_fsspec(url: str, scheme: str) -> Address:
    if scheme not in _PACKAGES:
        raise TargetProblem(
            f"nothing here can write to addresses of {scheme}://",
            f"use a local folder, or one of {', '.join(sorted({*_NATIVE, *_PACKAGES}))}",
        )
    package, protocol = _PACKAGES[scheme]
    try:
        fsspec = importlib.import_module("fsspec")
        opened: Any = fsspec.filesystem(protocol, **_options(fsspec, protocol, url))
    except ImportError as error:
        missing = " ".join(filter(None, ("fsspec", package)))
        raise TargetProblem(
            f"the connector for {scheme}:// is not installed", f"pip install {missing}"
        ) from error
    except Exception as error:
        raise problem_of(error) from error
    kind: FilesystemKind = "objects" if scheme in _OBJECT_STORES else "other"
    path = opened._strip_protocol(f"{protocol}{url[url.index(':') :]}")
    return Address(url, pa_fs.PyFileSystem(pa_fs.FSSpecHandler(opened)), path.rstrip("/"), kind)


def _options(fsspec: Any, protocol: str, url: str) -> dict[str, object]:
    """Return the connector's options that are part of the address, such as the host."""
    options = fsspec.get_filesystem_class(protocol)._get_kwargs_from_urls(
        f"{protocol}{url[url.index(':') :]}"
    )
    return {key: value for key, value in options.items() if key != "path"}


def named(half: str) -> str:
    """Return the final name of a half-written file."""
    return half.removeprefix(WRITING).rpartition("-")[0]


class Sink:
    """A stream for pyarrow to write to, which counts and hashes the bytes."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self.bytes = 0
        self.closed = False
        self.is_abandoned = False

    def write(self, data: Any) -> int:
        """Append the data, unless the sink is abandoned. Raises ``TargetProblem``."""
        view = memoryview(data).cast("B")
        if not self.is_abandoned:
            self._hash.update(view)
            with raising_problems():
                self._stream.write(view)
            self.bytes += len(view)
        return len(view)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self.bytes

    def flush(self) -> None:
        """Do nothing, as nothing is buffered here."""

    def close(self) -> None:
        """Mark the sink as closed; the caller that opened the stream closes it."""
        self.closed = True

    def abandon(self) -> None:
        """Discard further writes: pyarrow writes a footer even when it closes a failed file."""
        self.is_abandoned = True

    @property
    def sha256(self) -> str:
        """Return the checksum of the bytes written, in hexadecimal."""
        return self._hash.hexdigest()


class LocalHalf:
    """A local file in progress: written beside its place, synced to disk, then renamed."""

    def __init__(self, final: Path) -> None:
        self._final = final
        self._half = Path(_beside(str(final)))
        self._stream: IO[bytes] | None = None

    def open(self) -> IO[bytes]:
        """Create the file's folder, and open the half-written file."""
        self._final.parent.mkdir(parents=True, exist_ok=True)
        # A small buffer is enough: pyarrow writes whole pages.
        self._stream = open(self._half, "xb", buffering=1 << 20)  # noqa: SIM115 (closed below)
        return self._stream

    def finish(self) -> None:
        """Sync the bytes to disk, then replace the final name atomically."""
        assert self._stream is not None
        try:
            self._stream.flush()
            os.fsync(self._stream.fileno())
            self._stream.close()
            os.replace(self._half, self._final)
            _sync(self._final.parent)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Delete the half-written file; closing it flushes the buffer, which may fail again."""
        if self._stream is not None:
            with suppress(OSError):
                self._stream.close()
        with suppress(OSError):
            self._half.unlink(missing_ok=True)


class HdfsHalf:
    """A file in progress on HDFS: written beside its place, then renamed."""

    def __init__(self, address: Address, final: str) -> None:
        self._filesystem, self._final, self._half = address.filesystem, final, _beside(final)
        self._stream: Any = None

    def open(self) -> Any:
        """Create the file's folder, and open the half-written file."""
        self._filesystem.create_dir(self._final.rpartition("/")[0], recursive=True)
        self._stream = self._filesystem.open_output_stream(self._half, compression=None)
        return self._stream

    def finish(self) -> None:
        """Close the file, and rename it."""
        try:
            self._stream.close()
            _rename_over(self._filesystem, self._half, self._final)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Close and delete the half-written file."""
        with suppress(OSError, pa.ArrowException):
            self._stream.close()
        with suppress(OSError, pa.ArrowException):
            self._filesystem.delete_file(self._half)


class Upload:
    """A file in progress for an object store: collected on this machine, and sent once complete.

    pyarrow cannot abort an upload: a stream that is closed early replaces the object by a part of
    the new one.
    """

    def __init__(self, address: Address, final: str) -> None:
        self._filesystem, self._final = address.filesystem, final
        # On an object store, a folder would be an object of its own.
        self._makes_folders = address.kind != "objects"
        self._collected = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115

    def open(self) -> Any:
        """Return the file that collects the bytes."""
        return self._collected

    def finish(self) -> None:
        """Send the bytes, after creating the folder where there are folders."""
        with self._collected:
            self._collected.seek(0)
            if self._makes_folders:
                self._filesystem.create_dir(self._final.rpartition("/")[0], recursive=True)
            with self._filesystem.open_output_stream(self._final, compression=None) as stream:
                shutil.copyfileobj(self._collected, stream, _IN_MEMORY_BYTES)

    def discard(self) -> None:
        """Forget the bytes; an object of this name stays as it is."""
        self._collected.close()


def in_progress(address: Address, final: str) -> LocalHalf | HdfsHalf | Upload:
    """Return a file in progress, of the kind that the file system needs."""
    if address.kind == "local":
        return LocalHalf(Path(final))
    return (HdfsHalf if address.kind == "hdfs" else Upload)(address, final)


def move(address: Address, path: str, to: str) -> None:
    """Rename a file, atomically where the file system can."""
    if address.kind == "local":
        Path(to).parent.mkdir(parents=True, exist_ok=True)
        _sync(Path(path))
        os.replace(path, to)
        _sync(Path(to).parent)
    elif address.kind == "objects":
        address.filesystem.move(path, to)
    else:
        address.filesystem.create_dir(to.rpartition("/")[0], recursive=True)
        _rename_over(address.filesystem, path, to)


def _rename_over(filesystem: pa_fs.FileSystem, path: str, to: str) -> None:
    """Rename a file where an existing name is refused: the former file is put aside meanwhile."""
    former = _beside(to)
    exists = filesystem.get_file_info(to).type == pa_fs.FileType.File
    if exists:
        filesystem.move(to, former)
    try:
        filesystem.move(path, to)
    except BaseException:
        if exists:
            filesystem.move(former, to)
        raise
    if exists:
        filesystem.delete_file(former)


def _beside(path: str) -> str:
    """Return a new name beside a file, which readers take for a half-written file's."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{WRITING}{name}-{secrets.token_hex(4)}"


def _sync(path: Path) -> None:
    """Sync a file, or a folder with its names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
