"""``replview changes``: a slot's stored changes as JSON lines, in the order of their commits."""

import os
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

import orjson
from django.core.management.base import CommandError
from django.db import OperationalError, connection

from decoder.scalars import LSN
from replview.management.instance import InstanceCommand, find_slot
from replview.store.change_json import Record
from replview.store.change_stream import Cursor, iterate_changes, last_cursor
from replview.store.models import Slot

#: Between two looks for new transactions: one small read by primary key each.
_LOOK_SECONDS = 0.25


class Command(InstanceCommand):
    """Stream changes to standard output."""

    help = (
        "Write stored changes as JSON lines in the order of their commits; the reader may close "
        "the pipe at any time."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The options of the command."""
        option = parser.add_argument
        option("--slot", required=True, metavar="[SOURCE/]NAME")
        option("--relation", metavar="SCHEMA.TABLE", help="only changes of this table")
        option("--from-lsn", type=_lsn, metavar="LSN", help="commits at or after it")
        option("--to-lsn", type=_lsn, metavar="LSN", help="commits at or before it")
        option("--follow", action="store_true", help="go on with what is committed later")
        option("--format", choices=["jsonl"], default="jsonl")
        self.add_data(parser)

    def handle(self, **options: Any) -> None:
        """Write until the end, or with --follow until stopped."""
        slot = find_slot(options["slot"])
        try:
            for record in _records(slot, options):
                if record is None:
                    sys.stdout.flush()
                else:
                    self._write(record)
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader has had enough; nothing more must be flushed at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _write(self, record: Record) -> None:
        self.stdout.write(orjson.dumps(record).decode(), ending="\n")


def _records(slot: Slot, options: dict[str, Any]) -> Iterator[Record | None]:
    """Records in order; None where everything there was has been given."""
    relation = _relation(options["relation"])
    after: Cursor | None = None
    while True:
        # Taken first: what is committed while we read is found at the next look.
        end = last_cursor(slot)
        for place, record in iterate_changes(
            slot,
            relation=relation,
            from_lsn=options["from_lsn"],
            to_lsn=options["to_lsn"],
            after=after,
        ):
            yield record
            end = max(end or place, place)
        after = end
        yield None
        if not options["follow"] or not _wait_for_more(slot, after):
            return


def _wait_for_more(slot: Slot, after: Cursor | None) -> bool:
    """Until history has grown; False when the slot is gone."""
    while True:
        try:
            slot.refresh_from_db(fields=["incarnation"])
            if last_cursor(slot) != after:
                return True
        except Slot.DoesNotExist:
            return False
        except OperationalError:
            connection.close()  # the store restarts: look again
        time.sleep(_LOOK_SECONDS)


def _relation(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    schema, dot, table = text.partition(".")
    if not table or not schema:
        if dot:
            raise CommandError(f"{text} is not a table's name: write schema.table")
        schema, table = "public", text
    return schema, table


def _lsn(text: str) -> LSN:
    try:
        return LSN.parse(text)
    except ValueError:
        raise CommandError(f"{text} is not an LSN: write it like 0/1B2C3D8") from None
