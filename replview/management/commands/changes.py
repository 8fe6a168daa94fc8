"""``replview changes``: a slot's stored changes, in the order of their commits."""

import os
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from django.core.management.base import CommandError
from django.db import OperationalError, connection

from replview.access.visibility import reading_session
from replview.features.downloads.files import write_parquet
from replview.management.changes_options import add_filters, number, selection_of
from replview.management.instance import InstanceCommand, find_slot
from replview.parquet.writing.problems import TargetProblem
from replview.store.models import Slot
from replview.store.read.changes.records import Record, csv_lines
from replview.store.read.changes.scan import ALL_OF_IT
from replview.store.read.changes.scan_places import Place
from replview.store.read.changes.search import check_where
from replview.store.read.changes.selections import Selection
from replview.store.read.changes.stream import Cursor, RecordWriter, iterate_found, last_cursor
from replview.store.read.relation_shapes import unknown_words
from replview.store.write.access_record import Action, note, searched_changes

#: Between two looks for new transactions: one small read by primary key each.
_LOOK_SECONDS = 0.25
#: What a row's history is not narrowed by.
_NOT_OF_A_ROW = (
    "actor", "origin", "state", "xid", "gid", "transaction", "text", "min_changes", "min_bytes",
    "prepared_min", "from_lsn", "to_lsn", "where",
)  # fmt: skip


class Command(InstanceCommand):
    help = (
        "Write stored changes in the order of their commits, as JSON lines, CSV or Parquet; the "
        "reader may close the pipe at any time."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        option = parser.add_argument
        option("--slot", required=True, metavar="[SOURCE/]NAME")
        add_filters(parser)
        option("--newest", type=number, metavar="N", help="only the last N of them")
        option("--limit", type=number, metavar="N", help="stop after N changes")
        option("--follow", action="store_true", help="go on with what is committed later")
        option("--format", choices=["jsonl", "csv", "parquet"], default="jsonl")
        option("--output", metavar="PATH", help="a file instead of standard output; for Parquet a "
               "folder, or FILE.parquet where there is but one table")  # fmt: skip
        self.add_data(parser)

    def handle(self, **options: Any) -> None:
        """Write until the end, or with --follow until stopped."""
        slot = find_slot(options["slot"])
        selection = selection_of(slot, options)
        _check(selection, options)
        # They leave the store for good, as with a download.
        searched_changes(selection.wanted)
        note(Action.DOWNLOADED, subject=f"changes of {slot}", source_id=slot.source_id,
             tables=selection.wanted.filter.tables,
             details={"format": options["format"]})  # fmt: skip
        if options["format"] == "parquet":
            self._parquet(selection, options)
        elif options["output"]:
            with _opened(options["output"]) as file:
                for line in _lines(selection, options):
                    file.write(line or b"")
        else:
            self._stream(selection, options)

    def _stream(self, selection: Selection, options: dict[str, Any]) -> None:
        """To standard output, each look's end flushed."""
        try:
            for line in _lines(selection, options):
                if line is None:
                    sys.stdout.flush()
                else:
                    self.stdout.write(line.decode(), ending="")
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader has had enough; nothing more must be flushed at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _parquet(self, selection: Selection, options: dict[str, Any]) -> None:
        target = Path(options["output"])
        try:
            if target.suffix == ".parquet":
                self._one_file(selection, target, options["limit"])
                return
            target.mkdir(parents=True, exist_ok=True)
            for path in write_parquet(selection, target, options["limit"]).paths:
                self.stderr.write(str(path))
        except OSError as error:
            raise CommandError(f"{target} cannot be written: {error.strerror}") from None
        except TargetProblem as error:
            raise CommandError(f"{target} cannot be written: {error.cause}") from None

    def _one_file(self, selection: Selection, target: Path, limit: int | None) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".replview-") as folder:
            files = write_parquet(selection, Path(folder), limit)
            if files.tables != 1:
                raise CommandError(
                    f"these are changes of {files.tables} tables: name one with --table, or give "
                    "a folder with --output"
                )
            os.replace(files.paths[0], target)
        self.stderr.write(str(target))


def _check(selection: Selection, options: dict[str, Any]) -> None:
    wanted = selection.wanted
    unknown = unknown_words(reading_session(), wanted.filter.tables, str(wanted.slot))
    if unknown and not options["follow"]:
        raise CommandError(f"{unknown}; a table is named with its schema: public.orders")
    check_where(reading_session(), wanted)
    parquet = options["format"] == "parquet"
    if parquet and not options["output"]:
        raise CommandError("a Parquet file cannot be streamed: say where with --output")
    for name, other in (("follow", parquet or options["row"]), ("newest", parquet)):
        if options[name] and other:
            beside = "--format parquet" if parquet else "--row"
            raise CommandError(f"--{name} does not go with {beside}")
    if ignored := next((name for name in _NOT_OF_A_ROW if options["row"] and options[name]), ""):
        raise CommandError(f"--{ignored.replace('_', '-')} does not go with --row")


def _opened(path: str) -> BinaryIO:
    try:
        return Path(path).open("wb")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None


def _lines(selection: Selection, options: dict[str, Any]) -> Iterator[bytes | None]:
    """Lines in the order of history; None where everything there was has been given."""
    records = _first(_records(selection, options), options["limit"])
    if options["format"] == "csv":
        return csv_lines(record for record in records if record is not None)
    return (None if record is None else orjson.dumps(record) + b"\n" for record in records)


def _first(records: Iterator[Record | None], limit: int | None) -> Iterator[Record | None]:
    """The first ``limit`` records, and the marks between them."""
    left = limit
    for record in records:
        yield record
        if record is not None and left is not None:
            left -= 1
            if left == 0:
                return


def _records(selection: Selection, options: dict[str, Any]) -> Iterator[Record | None]:
    """Records in order; None where everything there was has been given."""
    slot = selection.wanted.slot
    assert isinstance(slot, Slot)
    writer = RecordWriter(reading_session(), slot)
    # Taken first: what is committed while we read is found at the next look.
    end = last_cursor(reading_session(), slot)
    if options["newest"]:
        yield from map(writer.record, selection.newest(reading_session(), options["newest"]))
    elif selection.key is not None:
        yield from map(writer.record, selection.found(reading_session()))
    else:
        for found in selection.found(reading_session()):
            yield writer.record(found)
            number = writer.incarnation_number(found[0].incarnation_id)
            place = Cursor(number, found[0].commit_seq or 0)
            end = max(end or place, place)
    yield None
    while options["follow"] and _wait_for_more(slot, end):
        after = None if end is None else Place(end.incarnation, end.commit_seq, ALL_OF_IT)
        end = last_cursor(reading_session(), slot)
        # An incarnation, or a table, may have begun since.
        writer = RecordWriter(reading_session(), slot)
        for found in iterate_found(reading_session(), selection.wanted, after):
            yield writer.record(found)
            number = writer.incarnation_number(found[0].incarnation_id)
            place = Cursor(number, found[0].commit_seq or 0)
            end = max(end or place, place)
        yield None


def _wait_for_more(slot: Slot, after: Cursor | None) -> bool:
    """Until history has grown; False when the slot is gone."""
    while True:
        try:
            slot.refresh_from_db(fields=["incarnation"])
            if last_cursor(reading_session(), slot) != after:
                return True
        except Slot.DoesNotExist:
            return False
        except OperationalError:
            connection.close()  # the store restarts: look again
        time.sleep(_LOOK_SECONDS)
