"""``replview export``: write a part of the record as typed Parquet."""

import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
from django.core.management.base import CommandError

from replview.features.exports.api import export_json
from replview.features.exports.job import carry_out
from replview.features.exports.outlook import Outlook, outlook_of
from replview.features.exports.request import (
    BEGINNINGS,
    ExportRequest,
    ask,
    nothing_words,
    over_a_gap,
    read_export_request,
)
from replview.jobs import exports
from replview.live.publisher import Publisher
from replview.management import instance
from replview.management.changes_options import add_filters, words_of
from replview.parquet.slices import BeforeOrigin
from replview.store import instance_settings
from replview.store.models import Export, Slot
from replview.store.write.access_record import Action, command_user, note
from replview.targets.policy import DEFAULT_SCHEMES, Refused, read_policy
from replview.text.formats import age_words, bytes_words, count_words, plural

_EARLIER_SHOWN = 20
#: Filter parameters that end an export's range, and all that set its range.
_END_NAMES = ("until", "to_lsn")
_POSITION_NAMES = ("slot", *BEGINNINGS, *_END_NAMES)
#: Exit statuses, and their names in the JSON answer.
DONE, FAILED, NOTHING_NEW, GAP = range(4)
_OUTCOMES = ("done", "failed", "nothing_new", "gap")
#: Seconds between two progress lines where there is no terminal.
_PROGRESS_SECONDS = 2.0


class Command(instance.InstanceCommand):
    """The command that exports, lists and cancels exports, and sets the export policy."""

    help = (
        "Write part of a slot's history as Parquet files. There is one dataset per table and one "
        "of the transactions. The filters are those of 'replview changes' that select whole "
        "transactions. The command exports in its own process, and 'replview export --list' lists "
        "the export. Exit status: 0 done, 1 failed, 2 nothing new, 3 over a gap, 64 wrong options "
        "or no instance."
    )
    examples = (
        "replview export --slot shop/replview --since 7d --to exports/week",
        "replview export --slot shop/replview --table public.orders --estimate",
        "replview export --slot shop/replview --name nightly --since-last --to s3://bucket/shop",
    )
    wrong_use_status = instance.WRONG_USE

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the slot, the filters and the options of ``export``."""
        slot = "the slot whose history is exported"
        parser.add_argument("--slot", metavar="[SOURCE/]NAME", help=slot)
        add_filters(parser, of_rows=False)
        _add_file_options(parser)
        _add_name_options(parser)
        _add_run_options(parser)
        _add_instance_options(parser)
        self.add_data(parser)

    def handle(self, **options: Any) -> None:
        """Export, list, cancel or change the policy, as the options say."""
        self.as_json = bool(options["json"])
        if self._change_policy(options):
            policy = read_policy()
            self.say(f"exports are {'allowed' if policy.allowed else 'refused'}",
                     f"folders: within {policy.root}; admins and commands elsewhere too",
                     "URLs, for admins and commands: "
                     f"{', '.join(policy.schemes) or 'none'}")  # fmt: skip
        elif options["cancel"] is not None:
            self._cancel(options["cancel"])
        elif options["list"]:
            rows = Export.objects.all()
            if options["slot"]:
                rows = rows.filter(slot=instance.find_slot(options["slot"]))
            self.say(listed(rows[:_EARLIER_SHOWN]))
        elif options["slot"]:
            self._export(instance.find_slot(options["slot"]), options)
        else:
            raise CommandError("name the slot: --slot SOURCE/NAME, or give --list")

    def _export(self, slot: Slot, options: dict[str, Any]) -> None:
        try:
            read_policy().check()
            export_request, target = _request(slot, options)
            gaps = export_request.gaps
            if options["estimate"]:
                self.say(*estimate_lines(outlook_of(export_request, patient=True), target))
                return
            if not target:
                raise CommandError("name the target: --to FOLDER or --to URL (or give --estimate)")
            if gaps and not options["allow_gaps"]:
                remedy = "Give --allow-gaps to go on without it"
                raise self._end(GAP, over_a_gap(export_request), remedy, gaps)
            if export_request.empty:
                raise self._end(NOTHING_NEW, *nothing_words(export_request))
            outlook = outlook_of(export_request, patient=True)
            row = ask(export_request, target, by=command_user(), how=Export.How.COMMAND,
                      anywhere=True, base=Path.cwd(),
                      spark=options["spark"] or outlook.spark_for(target))  # fmt: skip
        except Refused as refused:
            if not self.as_json:
                raise
            raise self._end(FAILED, refused.cause, refused.remedy) from None
        self._carry_out(row, outlook, options)
        if row.state != Export.State.DONE:
            cause = row.problem_cause or "its files were deleted"
            cause = f"export {row.pk} {row.state}: {cause}"
            raise self._end(FAILED, cause, row.problem_remedy, row=row)
        if options["json"]:
            self._end(DONE, gaps=gaps, row=row)
        else:
            self.say(*ended_lines(row), *(f"over a gap: {gap}" for gap in gaps))

    def _carry_out(self, row: Export, outlook: Outlook, options: Mapping[str, Any]) -> None:
        """Run the export in this process, so that no worker is needed."""
        show = progress_line(self.stderr, outlook.estimate.rows, always=options["wait"])
        try:
            with closing(Publisher()) as wakes, instance.stopping_on_signals() as stop:
                carry_out(row, wakes, stop, on_progress=show, take_back=options["take_back"])
        finally:
            if sys.stderr.isatty():
                self.stderr.write("")
        row.refresh_from_db()

    def _end(
        self, status: int, cause: str = "", remedy: str = "", gaps: tuple[str, ...] = (),
        row: Export | None = None,
    ) -> CommandError:  # fmt: skip
        """Print the answer with ``--json``, and return the error that ends the command."""
        if self.as_json:
            answer = {"outcome": _OUTCOMES[status], "export": row and export_json(row),
                      "gaps": gaps, "problem": cause, "remedy": remedy}  # fmt: skip
            self.say(orjson.dumps(answer).decode())
        return CommandError(f"{cause}. {remedy}" if remedy else cause, returncode=status)

    def _cancel(self, export_id: int) -> None:
        row = Export.objects.filter(pk=export_id).first()
        if row is None:
            raise CommandError(f"there is no export {export_id}: see replview export --list")
        if not exports.rows.cancel(export_id):
            raise CommandError(f"export {export_id} is {row.state} already")
        note(Action.EXPORTED, subject=f"export {export_id}", details={"act": "cancelled"})
        self.say(f"export {export_id} cancelled; its files are deleted")

    def _change_policy(self, options: dict[str, Any]) -> bool:
        """Change the given policy settings, and return whether any was given."""
        if options["allow"] and options["forbid"]:
            raise CommandError("give either --allow or --forbid")
        if options["allow"] or options["forbid"]:
            instance_settings.write("exports.allowed", options["allow"], instance.BY)
            note(Action.CHANGED_SETTINGS, subject=f"exports: {'on' if options['allow'] else 'off'}")
        for name in ("root", "schemes"):
            text = options[name]
            if text is None:
                continue
            value: Any = None
            if name == "root" and not text.strip():
                raise CommandError("--root must name a folder, or 'default'")
            if text != "default" and name == "root":
                value = str(Path(text).resolve())
            elif text != "default":
                value = [
                    stripped for scheme in text.split(",") if (stripped := scheme.strip().lower())
                ]
            instance_settings.write(f"exports.{name}", value, instance.BY)
            note(Action.CHANGED_SETTINGS, subject=f"exports: {name} {text}")
        has_new_policy = options["root"] is not None or options["schemes"] is not None
        return options["allow"] or options["forbid"] or has_new_policy


def _add_file_options(parser: ArgumentParser) -> None:
    """Add the options for the target and what its files contain."""
    option = parser.add_argument
    option("--to", metavar="FOLDER|URL", help="the target: a folder or a URL such as "
           "s3://bucket/folder")  # fmt: skip
    option(
        "--before",
        choices=["sent", "derived"],
        help="a row's values before an update: as the server sent them (the default), or also "
        "derived from history (slower)",
    )
    option("--images", choices=["sent", "full"], help="columns of a row: those the server sent "
           "(the default), or all, completed from history (slower)")  # fmt: skip
    option(
        "--numeric-scale",
        type=int,
        metavar="DIGITS",
        help="write numeric without a precision "
        "as decimal(38, DIGITS); values that do not fit go to _pg_raw as text",
    )


def _add_name_options(parser: ArgumentParser) -> None:
    """Add the options that name an export and continue it."""
    option = parser.add_argument
    option(
        "--name",
        default="",
        metavar="NAME",
        help="name the export, to continue it later with --since-last",
    )
    option("--since-last", action="store_true", help="export what was committed since the "
           "last export of this name, by default with its filters, target, --before, --images and "
           "--numeric-scale")  # fmt: skip
    option("--allow-gaps", action="store_true", help="with --since-last: export although "
           "history has a gap in between")  # fmt: skip
    option("--take-back", action="store_true", help="first delete the files of an "
           "export to this target that never ended; make sure that it does not run any "
           "more")  # fmt: skip


def _add_run_options(parser: ArgumentParser) -> None:
    """Add the options for how the export runs and reports."""
    option = parser.add_argument
    option("--spark", default="", metavar="MASTER|sc://HOST", help="run on Spark: local[2], …")
    option(
        "--estimate",
        action="store_true",
        help="show rows, size and duration, and write nothing",
    )
    option("--json", action="store_true", help="print the result as a JSON object: outcome "
           "(done, nothing_new, gap or failed), export, gaps, problem, remedy")  # fmt: skip
    option("--wait", action="store_true", help="print progress even without a "
           "terminal")  # fmt: skip


def _add_instance_options(parser: ArgumentParser) -> None:
    """Add the options that list and cancel exports, and set the export policy."""
    option = parser.add_argument
    option("--list", action="store_true", help="list earlier exports")
    option("--cancel", type=int, metavar="ID", help="cancel an export that waits or runs")
    option("--allow", action="store_true", help="allow exports on this instance")
    option("--forbid", action="store_true", help="forbid all exports on this instance")
    option("--root", metavar="FOLDER", help="folder that users other than admins may write to; "
           "'default': exports in the data folder")  # fmt: skip
    option(
        "--schemes",
        metavar="S3,GS",
        help="URL schemes that admins may write to; 'default': " + ",".join(DEFAULT_SCHEMES),
    )


def _request(slot: Slot, options: dict[str, Any]) -> tuple[ExportRequest, str]:
    """Return the export request and its target.

    With ``--since-last``, options that are not given come from the last export of that name.
    """
    name, words, target = options["name"], words_of(options), options["to"] or ""
    if options["since_last"]:
        if not name:
            raise CommandError("--since-last continues a named export: give --name")
        last = exports.last_done(slot, name)
        if last is not None:
            ends = {word: text for word, text in words.items() if word in _END_NAMES}
            given_words = {
                word: text for word, text in words.items() if text and word not in _POSITION_NAMES
            }
            last_words = {
                word: text for word, text in last.words.items() if word not in _POSITION_NAMES
            }
            words = (given_words or last_words) | ends
            target = target or last.target
    images: BeforeOrigin | None = options["images"]
    before_origin = images if images == "full" else options["before"] or images
    export_request = read_export_request(slot, words, name=name, before=before_origin,
                                         numeric_scale=options["numeric_scale"],
                                         since_last=options["since_last"])  # fmt: skip
    return export_request, target


def progress_line(
    stream: Any, total: int | None, *, always: bool
) -> Callable[[Mapping[str, Any]], None]:
    """Return a function that shows an export's progress.

    It rewrites one line at a terminal. Elsewhere it prints a line every two seconds if ``always``.
    """
    terminal = sys.stderr.isatty()
    shown_at = 0.0

    def show(progress: Mapping[str, Any]) -> None:
        nonlocal shown_at
        text = _progress_words(progress, total)
        if terminal:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
        elif always and time.monotonic() - shown_at >= _PROGRESS_SECONDS:
            shown_at = time.monotonic()
            stream.write(text)

    return show


def _progress_words(progress: Mapping[str, Any], total: int | None) -> str:
    rows, seconds_left = progress.get("rows"), progress.get("seconds_left")
    if rows is None:
        return "beginning"
    total_rows = progress.get("total_rows") or total
    text = f"{count_words(rows)} rows" + (f" of {count_words(total_rows)}" if total_rows else "")
    text += f", {plural(progress.get('files') or 0, 'file')}"
    if progress.get("bytes"):
        text += f", {bytes_words(progress['bytes'])}"
    return text + (
        f", about {age_words(float(seconds_left))} left" if seconds_left is not None else ""
    )


def estimate_lines(outlook: Outlook, target: str) -> list[str]:
    """Format what an export would write, and how long it would take."""
    estimate = outlook.estimate
    engine = "on Spark" if outlook.spark_for(target) else "without a JVM"
    seconds = age_words(max(estimate.seconds, 1.0))
    if not estimate.transactions:
        nearest = "" if outlook.nearest is None else f"; the nearest change is at {outlook.nearest}"
        return [f"no transaction matches{nearest}"]
    transactions = count_words(estimate.transactions)
    lines = [f"{count_words(estimate.rows)} rows of {transactions} transactions, "
             f"about {bytes_words(estimate.bytes)} and {seconds}, written {engine}",
             f"LSNs {outlook.first_lsn} to {outlook.last_lsn}"]  # fmt: skip
    return lines + [
        f"  {dataset.name}: {count_words(dataset.rows)}" for dataset in outlook.datasets
    ]


def ended_lines(row: Export) -> list[str]:
    """Format the result of a finished export."""
    size = "" if row.size_bytes is None else f", {bytes_words(row.size_bytes)}"
    rows = "unknown" if row.rows is None else count_words(row.rows)
    tables = (row.result or {}).get("tables") or []
    unknown = sum(table.get("unknown", 0) for table in tables)
    unfit = sum(table.get("unfit", 0) for table in tables)
    notes = [f"{plural(unknown, 'row')} with columns that were not sent: see _not_sent"] * bool(
        unknown
    )
    notes += [
        f"{plural(unfit, 'number')} did not fit the column type: null, with the text in _pg_raw"
    ] * bool(unfit)
    return [f"export {row.pk}: {rows} rows in {plural(row.files or 0, 'file')}{size}",
            f"in {row.target}", *notes]  # fmt: skip


def listed(rows: Iterable[Export]) -> str:
    """Format exports as a table, or a hint if there are none."""
    lines = [
        [
            str(row.pk),
            f"{row.requested_at:%Y-%m-%d %H:%M}",
            row.requested_by,
            row.slot_name,
            row.name,
            row.state,
            "" if row.rows is None else count_words(row.rows),
            row.target,
            row.problem_cause,
        ]
        for row in rows
    ]
    if not lines:
        return "nothing was exported yet: replview export --slot SOURCE/NAME --to FOLDER"
    head = ["ID", "ASKED (UTC)", "BY", "SLOT", "NAME", "STATE", "ROWS", "TO", "PROBLEM"]
    return instance.table_of([head, *lines])
