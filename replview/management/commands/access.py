"""``replview access list|forget``: show the access record, or delete old months of it."""

import datetime as dt
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from django.core.management.base import CommandError

from replview.access.reading import AccessFilter, forget, forgettable, record_json, walk
from replview.features.access_record.page import RecordLine
from replview.features.access_record.record_file import csv_lines, json_pieces
from replview.management.instance import Actions, InstanceCommand, table_of
from replview.store.models import AccessRecord
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.store.write.access_record import Action, Via, note
from replview.text.formats import plural


class Command(Actions, InstanceCommand):
    """The command that shows the access record and deletes old months of it."""

    help = (
        "Show the access record, or delete its oldest months. It tells who viewed rows, exported "
        "them or changed a setting."
    )
    examples = (
        "replview access list --user alice --since 7d",
        "replview access forget --before 2026-01-01",
    )

    def add_actions(self, actions: Any) -> None:
        """Add the parsers of ``list`` and ``forget``."""
        listing = actions.add_parser("list", help="list the access record, newest first")
        listing.add_argument("--what", choices=Action.values, help="only this kind of act")
        listing.add_argument("--user", default="", help="only acts of this account")
        listing.add_argument("--source", default="", help="only acts on this source")
        listing.add_argument("--table", default="", metavar="SCHEMA.TABLE",
                             help="only acts on this table")  # fmt: skip
        listing.add_argument("--via", choices=Via.values, default="",
                             help="only acts through a page, the API, …")  # fmt: skip
        listing.add_argument("--since", default="", metavar="TIME", help="an ISO time, or an age "
                             "such as 2h or 7d")  # fmt: skip
        listing.add_argument("--until", default="", metavar="TIME", help="the same")
        listing.add_argument("--limit", type=int, metavar="N", help="at most this many (default: "
                             "50 as text, else all)")  # fmt: skip
        listing.add_argument("--format", choices=["text", "jsonl", "csv"], default="text")
        shorten = actions.add_parser("forget", help="delete the whole months before a date; "
                                     "the deletion is recorded")  # fmt: skip
        shorten.add_argument("--before", required=True, metavar="DATE", help="such as 2026-11-01")
        shorten.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    def _list(self, options: dict[str, Any]) -> None:
        times = TransactionFilter.from_words(
            {name: options[name] for name in ("since", "until") if options[name]}
        )
        if times.misread:
            raise CommandError(f"not understood: {', '.join(times.misread)}")
        form = options["format"]
        limit = options["limit"] or (50 if form == "text" else None)
        filter_ = AccessFilter(
            action=options["what"] or "", user=options["user"], source=options["source"],
            table=options["table"], via=options["via"], since=times.since_at, until=times.until_at,
        )  # fmt: skip
        note(Action.VIEWED_ACCESS_RECORD, details={"format": form})
        records: Iterator[AccessRecord] = islice(walk(filter_), limit)
        if form == "text":
            heading = ["WHEN", "WHO", "DID", "TO WHAT", "FROM"]
            rows = [_row(RecordLine(record)) for record in records]
            self.say(table_of([heading, *rows]) if rows else "no record matches these filters")
            return
        for piece in (json_pieces if form == "jsonl" else csv_lines)(records):
            self.stdout.write(piece.decode(), ending="")

    def _forget(self, options: dict[str, Any]) -> None:
        try:
            before = dt.date.fromisoformat(options["before"])
        except ValueError:
            raise CommandError("--before is a date: 2026-11-01") from None
        deletable = forgettable(min(before, dt.datetime.now(dt.UTC).date()))
        if not deletable.months:
            self.say("nothing was deleted: no whole month ends before that date")
            return
        months = ", ".join(f"{month:%Y-%m}" for month in deletable.months)
        question = f"Delete {plural(deletable.records, 'record')} of {months} for good?"
        self.agree(question, options["yes"])
        forget(before)
        self.say(
            f"deleted {plural(deletable.records, 'record')} of {months}; the deletion is recorded"
        )


def _row(line: RecordLine) -> list[str]:
    facts = record_json(line.record)
    subject_parts = [line.record.subject, line.record.source_name, line.tables, line.facts]
    origin_parts = [line.via, line.record.address, line.record.page]
    return [
        str(facts["at"])[:19] + "Z",
        line.who,
        line.what,
        # A subject may hold text that a user typed: escape line breaks and control characters.
        json.dumps(" ".join(part for part in subject_parts if part), ensure_ascii=False)[1:-1],
        " ".join(word for word in origin_parts if word),
    ]
