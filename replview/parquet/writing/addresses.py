"""Where a target's address leads: a local folder, or a file system that pyarrow or fsspec knows."""

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pa_fs

from replview.parquet.writing.problems import TargetProblem, problem_of

Kind = Literal["local", "hdfs", "objects", "other"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
#: Parameters that hold a secret, in any object store's address.
_SECRET = re.compile(
    r"(^|_|-)(key|secret|password|token|sas|sig|signature|credential)($|_|-)", re.I
)
#: Schemes of pyarrow's own, and what they are; ``s3a`` and ``gcs`` are others' words for the same.
_NATIVE: dict[str, Kind] = {
    "s3": "objects", "gs": "objects", "abfs": "objects", "abfss": "objects",
    "hdfs": "hdfs", "viewfs": "hdfs",
}  # fmt: skip
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
#: What else fsspec can write to → the package it needs, and fsspec's word for it.
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


@dataclass(frozen=True, slots=True)
class Address:
    """A file system, and a folder in it."""

    #: Fit to be shown: it holds no secret.
    url: str
    filesystem: pa_fs.FileSystem
    path: str
    kind: Kind


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
    native = _SAME.get(name, name)
    if native in _NATIVE:
        try:
            return _native(url, f"{native}{url[len(scheme[1]) :]}", _NATIVE[native])
        except (NotImplementedError, ImportError, AttributeError):
            # This build of pyarrow leaves it out.
            pass
    return _by_fsspec(url, native)


def _local(path: Path) -> Address:
    absolute = path.absolute()
    return Address(str(absolute), pa_fs.LocalFileSystem(), absolute.as_posix(), "local")


def _refuse_secrets(url: str) -> None:
    parts = urlsplit(url)
    named = any(_SECRET.search(key) for key, _ in parse_qsl(parts.query, keep_blank_values=True))
    if named or ":" in parts.netloc.rpartition("@")[0]:
        raise TargetProblem(
            "the address holds credentials, which would be recorded with the export",
            "take them out, and put them into the environment of the one who writes",
        )


def _native(shown: str, url: str, kind: Kind) -> Address:
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
    kind: Kind = "objects" if scheme in _OBJECT_STORES else "other"
    path = opened._strip_protocol(f"{protocol}{url[url.index(':') :]}")
    return Address(url, pa_fs.PyFileSystem(pa_fs.FSSpecHandler(opened)), path.rstrip("/"), kind)


def _options(fsspec: Any, protocol: str, url: str) -> dict[str, Any]:
    """What the address itself tells the connector, such as its host."""
    told = fsspec.get_filesystem_class(protocol)._get_kwargs_from_urls(
        f"{protocol}{url[url.index(':') :]}"
    )
    return {key: value for key, value in told.items() if key != "path"}
