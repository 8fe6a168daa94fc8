"""Changes as files: JSON lines and CSV are streamed, Parquet is first written to disk."""

import re
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from replview.access.visibility import reading_session
from replview.features.downloads.typed_records import TypedRecords
from replview.parquet.writing.row_groups import row_groups, write_file
from replview.parquet.writing.targets import Target
from replview.store.read.changes.csv_lines import COLUMNS, csv_lines, lines_of
from replview.store.read.changes.records import utc_text
from replview.store.read.changes.selections import (
    MatchedChanges,
    Selection,
    undecided_words,
    within,
)
from replview.store.read.changes.stream import RecordWriter
from replview.store.read.row_history.before_images import before_images
from replview.store.read.rows import ChangeRow, TransactionRow, named

#: Changes of a download at most.
MOST_CHANGES = 100_000
#: Content type and file ending of each format.
FORMATS = {
    "jsonl": ("application/x-ndjson", "jsonl"),
    "csv": ("text/csv; charset=utf-8", "csv"),
    "parquet": ("application/vnd.apache.parquet", "parquet"),
}
#: Bytes of a piece of a file.
_PIECE_BYTES = 64 * 1024
#: Changes whose before images are read at once.
_CHANGES_AT_ONCE = 500


@dataclass(slots=True)
class Limited:
    """The first changes of many.

    After iteration ``cut`` says whether there were more, and ``unknown`` how many others may match.
    """

    found: Iterator[MatchedChanges]
    limit: int
    cut: bool = False
    unknown: int = 0

    def __iter__(self) -> Iterator[list[tuple[TransactionRow, ChangeRow]]]:
        remaining, unknown_later = self.limit, 0
        for matched, unknown in self.found:
            counted = within((matched, unknown), remaining)
            self.unknown += counted
            if remaining:
                yield matched[:remaining]
            self.cut = len(matched) > remaining
            if self.cut:
                return
            remaining -= len(matched)
            unknown_later += len(unknown) - counted
        self.unknown += unknown_later

    @property
    def notes(self) -> dict[str, str]:
        """Return sentences for the reader of the file: ``cut`` and ``undecided``."""
        remedy = "there are more: narrow the view, or use the command 'replview changes'"
        cut = {"cut": f"cut after {self.limit:,} changes, {remedy}"} if self.cut else {}
        return cut | ({"undecided": undecided_words(self.unknown)} if self.unknown else {})


def line_pieces(selection: Selection, form: str, limit: int = MOST_CHANGES) -> Iterator[bytes]:
    """Yield one line for each change, and one for each note.

    A note is an object like ``{"cut": …}`` or, in CSV, a line that begins with ``#``.
    """
    limited = Limited(selection.found(reading_session()), limit)
    writer = RecordWriter(reading_session(), selection.wanted.slot)
    if form == "csv":
        yield csv_lines([COLUMNS])
    for changes in limited:
        yield lines_of(map(writer.record, changes), form)
    for name, text in limited.notes.items():
        yield csv_lines([[f"# {text}"]]) if form == "csv" else lines_of([{name: text}], form)


@dataclass(frozen=True, slots=True)
class ParquetDownload:
    """The Parquet files of a view."""

    #: Files of the tables, then ``_transactions`` and ``_events``.
    paths: list[Path]
    tables: int
    events: int
    #: Sentences for the reader of the files: ``cut``, ``undecided``.
    notes: dict[str, str]


def write_parquet(selection: Selection, folder: Path, limit: int | None) -> ParquetDownload:
    """Write a view's changes, typed; updates get their before image where it is known.

    Raises ``TargetProblem``.
    """
    limited = Limited(selection.found(reading_session()), limit or 1 << 62)
    typed = TypedRecords(folder)
    records = RecordWriter(reading_session(), selection.wanted.slot)
    try:
        changes = chain.from_iterable(limited)
        while batch := list(islice(changes, _CHANGES_AT_ONCE)):
            updates = [change for _, change in batch if change.op == "U"]
            before = before_images(reading_session(), updates)
            for row, change in batch:
                image = before.get((change.transaction_id, change.seq))
                record = records.record((row, change))
                transaction = transaction_record(row, record["incarnation"])
                typed.add(record, change.columns, transaction=transaction,
                          whole_old=change.old_kind == "O",
                          derived=image.image if image else None)  # fmt: skip
        target, paths = Target.of(str(folder)), []
        for file in typed.files():
            write_file(target, file.name, file.schema, row_groups(file.batches, file.schema))
            paths.append(folder / file.name)
        return ParquetDownload(paths, typed.tables, typed.events, limited.notes)
    finally:
        typed.close()


def transaction_record(row: TransactionRow, incarnation: int) -> dict[str, object]:
    """Return the record of a transaction in the file ``_transactions``."""
    names = ("commit_seq", "xid", "gid", "state", "origin", "actor", "actor_grade", "context",
             "first_lsn", "commit_lsn", "end_lsn", "inserts", "updates", "deletes", "truncates",
             "messages")  # fmt: skip
    record: dict[str, Any] = {name: getattr(row, name) for name in names}
    times = {name: utc_text(getattr(row, name)) for name in ("commit_time", "prepared_at")}
    actors = named([part["actor"] for part in row.parts])
    size = {"size_bytes": row.shown_size_bytes}
    return {"incarnation": incarnation, **record, **size, **times, "actors": actors}


def parquet_download(selection: Selection, folder: Path) -> tuple[Path, dict[str, str]]:
    """Return the file to send (one table's, or a zip of all) and sentences for its reader."""
    files = write_parquet(selection, folder, MOST_CHANGES)
    if files.tables == 1 and not files.events:
        return files.paths[0], files.notes
    packed = folder / "slice.zip"
    # Parquet is compressed already.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for path in files.paths:
            archive.write(path, path.name)
    return packed, files.notes


def file_pieces(path: Path, folder: "tempfile.TemporaryDirectory[str]") -> Iterator[bytes]:
    """Yield a file piece by piece; its folder is deleted at the end, even an early one."""
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece
    finally:
        folder.cleanup()


def file_name(selection: Selection, ending: str, now: str) -> str:
    """Return a name such as ``shop-replview-public.orders-20261120T075712Z.jsonl``."""
    changes_filter = selection.wanted
    parts = str(changes_filter.slot).rsplit("/", 1)
    parts += changes_filter.filter.tables[:3] if changes_filter.filter.tables else ()
    if changes_filter.transaction_id is not None:
        parts.append(f"transaction-{changes_filter.transaction_id}")
    parts += [f"{name}-{value}"[:40] for name, value in (selection.key or {}).items()][:3]
    parts += ["changes", now] if len(parts) == 2 else [now]
    stem = "-".join(re.sub(r"[^A-Za-z0-9._-]+", "_", part) for part in parts)
    return f"{stem[:180]}.{ending}"
