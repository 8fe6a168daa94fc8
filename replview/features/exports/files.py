"""The files of a finished export as one zip, which is made while it is sent."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from replview.access.visibility import current_visibility
from replview.access.withheld import withheld
from replview.features.exports.reading_back import written
from replview.parquet.writing.layout import SCHEMA
from replview.store.models import Export
from replview.store.read.visibility import NO_RIGHT
from replview.targets.policy import Refused

PIECE_BYTES = 256 * 1024
#: The time of every file in the zip, so that the same export always gives the same bytes.
_FILE_TIME = (1980, 1, 1, 0, 0, 0)


def files_of(row: Export) -> list[tuple[str, Path]]:
    """Return each file's name in the zip and its path.

    Raises ``Refused`` where not all files are on this machine, or where one contains values that
    the reader may not see.
    """
    result = row.result or {}
    files: list[Mapping[str, Any]] = result.get("files") or []
    if row.state != Export.State.DONE or "://" in row.target:
        raise Refused("the files are not on this machine", "Read them where they are")
    if len(files) != row.files:
        raise Refused("there are too many files for a download", "Copy the folder")
    paths: dict[str, Path] = {}
    for file in files:
        paths[file["path"]] = path = written(row, file["path"])
        if not path.is_file() or path.stat().st_size != file["bytes"]:
            raise Refused("the files are not as they were written", "Export again")
    for dataset in dict.fromkeys(str(file["dataset"]) for file in files):
        paths[f"{dataset}/{SCHEMA}"] = written(row, f"{dataset}/{SCHEMA}")
    _refuse_withheld(row, result, paths)
    return list(paths.items())


def _refuse_withheld(row: Export, result: Mapping[str, Any], paths: Mapping[str, Path]) -> None:
    """Raise ``Refused`` if a file contains hidden values: it cannot be shown in part."""
    rights, masked = withheld(row.slot, name=row.slot_name), row.slice.get("masked") or {}
    if current_visibility().hides_messages(row.slot.source_id if row.slot else 0):
        raise Refused(f"you have {NO_RIGHT} of logical messages, which are in it", "Ask an admin")
    for table in result.get("tables") or []:
        name, schema = f"{table['schema']}.{table['table']}", f"{table['dataset']}/{SCHEMA}"
        if schema not in paths:
            continue
        columns = [
            c.get("source_name") for c in orjson.loads(paths[schema].read_bytes())["columns"]
        ]
        hidden = rights.columns(name, filter(None, columns)) - {*masked.get(name, ())}
        if rights.hides(name):
            raise Refused(f"you have {NO_RIGHT} of {name}, which is in it", "Ask an admin")
        if hidden:
            names = ", ".join(sorted(hidden))
            raise Refused(f"{names} of {name} is masked now, and in it", "Export again")


class _ZipBuffer(bytearray):
    """A buffer that a zip is written to, and that is emptied piece by piece."""

    def write(self, data: bytes) -> int:
        self += data
        return len(data)

    def flush(self) -> None: ...

    def take(self) -> bytes:
        """Return what was written since the last call, and remove it."""
        data = bytes(self)
        self.clear()
        return data


def zip_pieces(files: Sequence[tuple[str, Path]]) -> Iterator[bytes]:
    """Yield a zip of the files in pieces of about 256 kB; Parquet is not compressed again."""
    buffer = _ZipBuffer()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
        for name, path in files:
            entry = zipfile.ZipInfo(name, _FILE_TIME)
            with path.open("rb") as file, archive.open(entry, "w", force_zip64=True) as destination:
                while piece := file.read(PIECE_BYTES):
                    destination.write(piece)
                    yield buffer.take()
    yield buffer.take()
