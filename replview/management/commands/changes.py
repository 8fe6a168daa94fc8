"""``replview changes``: print a slot's stored changes in commit order."""

import gc
import os
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import CommandError
from django.db import OperationalError, connection

from replview.access.visibility import reading_session
from replview.management.changes_options import add_filters, number, selection_of
from replview.management.instance import InstanceCommand, find_slot
from replview.store.models import Slot
from replview.store.read.changes.csv_lines import COLUMNS, csv_lines, lines_of
from replview.store.read.changes.scan import AFTER_LAST_SEQ
from replview.store.read.changes.scan_places import ScanPosition
from replview.store.read.changes.search import check_where
from replview.store.read.changes.selections import (
    MatchedChanges,
    Selection,
    undecided_words,
    within,
    without_unchanged,
)
from replview.store.read.changes.stream import RecordWriter, StreamCursor, last_cursor
from replview.store.read.table_names import unknown_words
from replview.store.read.transactions.fields import FIELDS
from replview.store.write.access_record import Action, note
from replview.store.write.search_record import searched_changes
from replview.text.formats import plural

#: Seconds between two checks for new transactions; each is one small read by primary key.
_POLL_SECONDS = 0.25
#: Options that cannot be combined with ``--row``.
_NOT_WITH_ROW = (
    *(field.name for field in FIELDS if field.option and field.name not in ("since", "until")),
    "state", "xid", "gid", "transaction", "where",
)  # fmt: skip


class Command(InstanceCommand):
    """The command that writes stored changes to standard output or files."""

    help = (
        "Write stored changes in commit order, as JSON lines, CSV or Parquet. The reader may "
        "close the pipe at any time."
    )
    examples = (
        "replview changes --slot shop/replview --table public.orders --since 2h",
        "replview changes --slot shop/replview --where 'status changed' --format csv "
        "--output changes.csv",
        "replview changes --slot shop/replview --follow | jq .new",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the slot, the filters and the options of ``changes``."""
        option = parser.add_argument
        option("--slot", required=True, metavar="[SOURCE/]NAME", help="the slot that received them")
        add_filters(parser)
        option("--newest", type=number, metavar="N", help="only the last N changes")
        option("--limit", type=number, metavar="N", help="stop after N changes")
        option("--hide-unchanged", action="store_true", help="leave out updates that changed no "
               "value")  # fmt: skip
        option(
            "--follow",
            action="store_true",
            help="keep running, and write new changes as they are stored",
        )
        option("--format", choices=["jsonl", "csv", "parquet"], default="jsonl",
               help="(default: jsonl)")  # fmt: skip
        option("--output", metavar="PATH", help="write to this file; for Parquet a folder, or "
               "FILE.parquet for a single table")  # fmt: skip
        self.add_data(parser)

    def handle(self, **options: Any) -> None:
        """Note the download in the access record and write the changes."""
        slot = find_slot(options["slot"])
        selection = selection_of(slot, options)
        _check(selection, options)
        # Note it as a download, because the rows leave the store.
        searched_changes(selection.wanted)
        note(Action.DOWNLOADED, subject=f"changes of {slot}", source_id=slot.source_id,
             tables=selection.wanted.filter.tables,
             details={"format": options["format"]})  # fmt: skip
        if options["format"] == "parquet":
            self._parquet(selection, options)
        elif options["output"]:
            with _opened(options["output"]) as file:
                for lines in self._lines(selection, options):
                    file.write(lines)
        else:
            self._stream(selection, options)

    def _stream(self, selection: Selection, options: dict[str, Any]) -> None:
        """Write the lines to standard output, and flush after each read."""
        try:
            for lines in self._lines(selection, options):
                self.stdout.write(lines.decode(), ending="")
                self.stdout.flush()
        except BrokenPipeError:
            # The reader closed the pipe: redirect, so that the flush at exit does not fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _lines(self, selection: Selection, options: dict[str, Any]) -> Iterator[bytes]:
        """Yield lines in commit order, one piece per read of the store."""
        form, remaining, undecided, hidden = options["format"], options["limit"], 0, 0
        # Exempt what is loaded already from garbage collection, which runs after many reads.
        gc.freeze()
        if form == "csv":
            yield csv_lines([COLUMNS])
        for portion, writer in _matching_portions(selection, options):
            hide_unchanged = options["hide_unchanged"]
            matches, unchanged = without_unchanged(
                reading_session(), portion[0], asked=hide_unchanged
            )
            hidden += within((matches, unchanged), remaining)
            yield lines_of(map(writer.line, matches[:remaining]), form)
            undecided += within((matches, portion[1]), remaining)
            remaining = None if remaining is None else remaining - len(matches)
            if remaining is not None and remaining <= 0:
                break
        if undecided:
            self.stderr.write(undecided_words(undecided))
        if hidden:
            self.stderr.write(f"left out {plural(hidden, 'update')} that changed no value")

    def _parquet(self, selection: Selection, options: dict[str, Any]) -> None:
        # Imported late: pyarrow is slow to load, and writing lines does not need it.
        from replview.features.downloads.files import write_parquet
        from replview.parquet.writing.problems import TargetProblem

        target = Path(options["output"])
        one_file = target.suffix == ".parquet"
        folder = target.parent if one_file else target
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not one_file:
                files = write_parquet(selection, folder, options["limit"])
            else:
                with tempfile.TemporaryDirectory(dir=folder, prefix=".replview-") as folder_beside:
                    files = write_parquet(selection, Path(folder_beside), options["limit"])
                    if files.tables != 1:
                        raise CommandError(
                            f"these are changes of {files.tables} tables: name one with --table, "
                            "or give a folder with --output"
                        )
                    os.replace(files.paths[0], target)
        except OSError as error:
            raise CommandError(f"{target} cannot be written: {error.strerror}") from None
        except TargetProblem as error:
            raise CommandError(f"{target} cannot be written: {error.cause}") from None
        for path in [target] if one_file else files.paths:
            self.stderr.write(str(path))
        if note_text := files.notes.get("undecided"):
            self.stderr.write(note_text)


def _check(selection: Selection, options: dict[str, Any]) -> None:
    request = selection.wanted
    unknown = unknown_words(reading_session(), request.filter.tables, str(request.slot))
    if unknown and not options["follow"]:
        raise CommandError(f"{unknown}; a table is named with its schema: public.orders")
    check_where(reading_session(), request)
    parquet = options["format"] == "parquet"
    if parquet and not options["output"]:
        raise CommandError("Parquet cannot be written to standard output: give --output")
    for name, conflict in (
        ("follow", parquet or options["row"]), ("newest", parquet), ("hide_unchanged", parquet)
    ):  # fmt: skip
        if options[name] and conflict:
            other_option = "--format parquet" if parquet else "--row"
            raise CommandError(f"--{name.replace('_', '-')} cannot be combined with {other_option}")
    if ignored := next((name for name in _NOT_WITH_ROW if options["row"] and options[name]), ""):
        raise CommandError(f"--{ignored.replace('_', '-')} cannot be combined with --row")


def _opened(path: str) -> BinaryIO:
    try:
        return Path(path).open("wb")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None


def _matching_portions(
    selection: Selection, options: dict[str, Any]
) -> Iterator[tuple[MatchedChanges, RecordWriter]]:
    """Yield portions of changes in commit order, each with the writer of their records."""
    slot = selection.wanted.slot
    assert isinstance(slot, Slot)
    writer = RecordWriter(reading_session(), slot)
    as_lines = options["format"] == "jsonl" and not (options["limit"] or options["hide_unchanged"])
    # Read the end first: transactions committed during the read are found at the next check.
    end = last_cursor(reading_session(), slot)
    if options["newest"]:
        portions = iter([selection.newest(reading_session(), options["newest"])])
    else:
        portions = selection.found(reading_session(), as_lines=as_lines)
    while True:
        for portion in portions:
            yield portion, writer
            if matches := portion[0]:
                last = matches[-1][0]
                number = writer.incarnation_number(last.incarnation_id)
                cursor = StreamCursor(number, last.commit_seq or 0)
                end = max(end or cursor, cursor)
        if not (options["follow"] and _wait_for_more(slot, end)):
            return
        position = (
            None if end is None else ScanPosition(end.incarnation, end.commit_seq, AFTER_LAST_SEQ)
        )
        end = last_cursor(reading_session(), slot)
        # The slot may have a new incarnation or a new table since.
        writer = RecordWriter(reading_session(), slot)
        portions = selection.found(reading_session(), position, as_lines=as_lines)


def _wait_for_more(slot: Slot, cursor: StreamCursor | None) -> bool:
    """Wait until history has grown; return False when the slot is gone."""
    while True:
        try:
            slot.refresh_from_db(fields=["incarnation"])
            if last_cursor(reading_session(), slot) != cursor:
                return True
        except Slot.DoesNotExist:
            return False
        except OperationalError:
            connection.close()  # the store restarts: connect again
        time.sleep(_POLL_SECONDS)
