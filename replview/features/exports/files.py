"""The files of a finished export as one zip that is made while it is sent."""

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
#: What a zip without a time says of each file: the same export gives the same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)


def files_of(row: Export) -> list[tuple[str, Path]]:
    """Names in the zip, and where the files are. Raises ``Refused`` where they are not all here, or
    hold what whoever asks may not see.
    """
    result = row.result or {}
    files: list[Mapping[str, Any]] = result.get("files") or []
    if row.state != Export.State.DONE or "://" in row.target:
        raise Refused("the files are not on this machine", "Read them where they are")
    if len(files) != row.files:
        raise Refused("there are too many files for a download", "Copy the folder")
    found: dict[str, Path] = {}
    for one in files:
        found[one["path"]] = path = written(row, one["path"])
        if not path.is_file() or path.stat().st_size != one["bytes"]:
            raise Refused("the files are not as they were written", "Export again")
    for dataset in dict.fromkeys(str(one["dataset"]) for one in files):
        found[f"{dataset}/{SCHEMA}"] = written(row, f"{dataset}/{SCHEMA}")
    _refuse_withheld(row, result, found)
    return list(found.items())


def _refuse_withheld(row: Export, result: Mapping[str, Any], found: Mapping[str, Path]) -> None:
    """A file cannot be shown in part, as a page's preview is."""
    of, masked = withheld(row.slot, name=row.slot_name), row.slice.get("masked") or {}
    if current_visibility().hides_messages(row.slot.source_id if row.slot else 0):
        raise Refused(f"you have {NO_RIGHT} of logical messages, which are in it", "Ask an admin")
    for table in result.get("tables") or []:
        name, schema = f"{table['schema']}.{table['table']}", f"{table['dataset']}/{SCHEMA}"
        if schema not in found:
            continue
        columns = [
            c.get("source_name") for c in orjson.loads(found[schema].read_bytes())["columns"]
        ]
        hidden = of.columns(name, filter(None, columns)) - {*masked.get(name, ())}
        if of.hides(name):
            raise Refused(f"you have {NO_RIGHT} of {name}, which is in it", "Ask an admin")
        if hidden:
            which = ", ".join(sorted(hidden))
            raise Refused(f"{which} of {name} is masked now, and in it", "Export again")


class _Sent(bytearray):
    """What a zip writes to, which is then taken away."""

    def write(self, data: bytes) -> int:
        self += data
        return len(data)

    def flush(self) -> None: ...

    def taken(self) -> bytes:
        data = bytes(self)
        self.clear()
        return data


def zip_pieces(files: Sequence[tuple[str, Path]]) -> Iterator[bytes]:
    """A zip of the files, in pieces of 256 kB or little more; Parquet is compressed already."""
    sent = _Sent()
    with zipfile.ZipFile(sent, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
        for name, path in files:
            entry = zipfile.ZipInfo(name, _TIME)
            with path.open("rb") as file, archive.open(entry, "w", force_zip64=True) as into:
                while piece := file.read(PIECE_BYTES):
                    into.write(piece)
                    yield sent.taken()
    yield sent.taken()
