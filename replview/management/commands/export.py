"""``replview export``: a slice of the record as typed Parquet."""

import signal
import sys
import threading
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from replview.features.exports.job import carry_out
from replview.features.exports.outlook import Outlook, outlook_of
from replview.features.exports.request import Wish, ask, nothing_words, read_wish
from replview.jobs import exports
from replview.live.publisher import Publisher
from replview.management.output.changes_options import add_filters, words_of
from replview.management.output.export_lines import (
    ended_lines,
    estimate_lines,
    listed,
    progress_line,
)
from replview.management.output.instance import InstanceCommand, find_slot
from replview.store import instance_settings
from replview.store.models import Export, Slot
from replview.store.write.access_record import Action, command_user, note
from replview.targets.policy import DEFAULT_SCHEMES, Refused, read_policy

_BY = "the command line"
_EARLIER = 20


class Command(InstanceCommand):
    """Estimates, writes, lists and cancels exports."""

    help = (
        "Write a slice of a slot's record as Parquet, a dataset a table and one of the "
        "transactions: the same filters as 'replview changes'. The command does the export "
        "itself, and records it among all others."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The options of the command."""
        option = parser.add_argument
        option("--slot", metavar="[SOURCE/]NAME")
        add_filters(parser)
        option("--to", metavar="FOLDER|URL", help="where to: a folder (relative: to the current "
               "one), s3://bucket/folder, …")  # fmt: skip
        option("--before", choices=["sent", "derived"], default="sent", help="rows before an "
               "update: as the server sent them, or from the record too (slower)")  # fmt: skip
        option("--name", default="", metavar="NAME", help="name it, to continue it later")
        option("--since-last", action="store_true", help="what was committed since the last "
               "export of this name; filter and target default to its")  # fmt: skip
        option("--spark", default="", metavar="MASTER|sc://HOST", help="on Spark: local[2], …")
        option("--estimate", action="store_true", help="say what it would take, and write nothing")
        option("--wait", action="store_true", help="say how far it is, also where there is no "
               "terminal")  # fmt: skip
        option("--list", action="store_true", help="what was taken out, and by whom")
        option("--cancel", type=int, metavar="ID", help="give up an export that is not over")
        option("--allow", action="store_true", help="let this instance export")
        option("--forbid", action="store_true", help="have it refuse every export")
        option("--root", metavar="FOLDER", help="where most may write to; 'default': exports in "
               "the data folder")  # fmt: skip
        option("--schemes", metavar="S3,GS", help="URLs that admins may write to; 'default': "
               + ",".join(DEFAULT_SCHEMES))  # fmt: skip
        self.add_data(parser)

    def handle(self, **options: Any) -> None:
        """Do what was asked; a refusal is one line."""
        try:
            if self._chose(options):
                self._tell_policy()
            elif options["cancel"] is not None:
                self._cancel(options["cancel"])
            elif options["list"]:
                slot = find_slot(options["slot"]) if options["slot"] else None
                self._list(slot)
            elif options["slot"]:
                self._export(find_slot(options["slot"]), options)
            else:
                raise CommandError("say of which slot: --slot SOURCE/NAME, or --list")
        except Refused as refused:
            remedy = f". {refused.remedy}" if refused.remedy else ""
            raise CommandError(f"{refused.cause}{remedy}") from None

    def _export(self, slot: Slot, options: dict[str, Any]) -> None:
        read_policy().check()
        wish, target = _wish(slot, options)
        if options["estimate"]:
            for line in estimate_lines(outlook_of(wish, patient=True)):
                self.say(line)
            return
        if not target:
            raise CommandError("say where to: --to FOLDER or --to URL (or --estimate)")
        if wish.empty:
            cause, remedy = nothing_words(wish)
            if options["since_last"]:
                self.say(f"{cause}: nothing was written")
                return
            raise Refused(cause, remedy)
        outlook = outlook_of(wish, patient=True)
        row = ask(wish, target, by=command_user(), how=Export.How.COMMAND, anywhere=True,
                  base=Path.cwd(), spark=options["spark"] or outlook.spark)  # fmt: skip
        self._carry_out(row, outlook, options["wait"])

    def _carry_out(self, row: Export, outlook: Outlook, wait: bool) -> None:
        """Here, in this process: no worker is needed."""
        stop, wakes = threading.Event(), Publisher()
        show = progress_line(self.stderr, outlook.rows, always=wait)
        # Told to end, it takes back what it wrote: for that the job needs a moment.
        numbers = (signal.SIGTERM, signal.SIGINT)
        former = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
        try:
            carry_out(exports.claim_of(row.pk), wakes, stop, told=show)
        finally:
            for number, handler in zip(numbers, former, strict=True):
                signal.signal(number, handler)
            wakes.close()
            if sys.stderr.isatty():
                self.stderr.write("")
        row.refresh_from_db()
        if row.state != Export.State.DONE:
            remedy = f". {row.problem_remedy}" if row.problem_remedy else ""
            cause = row.problem_cause or "what it had written is deleted again"
            raise CommandError(f"export {row.pk} {row.state}: {cause}{remedy}")
        for line in ended_lines(row):
            self.say(line)

    def _list(self, slot: Slot | None) -> None:
        rows = Export.objects.all() if slot is None else Export.objects.filter(slot=slot)
        self.say(listed(rows[:_EARLIER]))

    def _cancel(self, export_id: int) -> None:
        row = Export.objects.filter(pk=export_id).first()
        if row is None:
            raise CommandError(f"there is no export {export_id}: see replview export --list")
        if not exports.cancel(export_id):
            raise CommandError(f"export {export_id} is {row.state} already")
        note(Action.EXPORTED, subject=f"export {export_id}", details={"act": "cancelled"})
        self.say(f"export {export_id} cancelled; what it had written is deleted again")

    def _chose(self, options: dict[str, Any]) -> bool:
        """Change what was given; whether anything was."""
        if options["allow"] and options["forbid"]:
            raise CommandError("--allow or --forbid")
        if options["allow"] or options["forbid"]:
            instance_settings.write("exports.allowed", options["allow"], _BY)
            note(Action.CHANGED_SETTINGS, subject=f"exports: {'on' if options['allow'] else 'off'}")
        for name in ("root", "schemes"):
            text = options[name]
            if text is None:
                continue
            value: Any = None
            if text != "default":
                value = str(Path(text).resolve()) if name == "root" else _split(text)
            instance_settings.write(f"exports.{name}", value, _BY)
            note(Action.CHANGED_SETTINGS, subject=f"exports: {name} {text}")
        return options["allow"] or options["forbid"] or bool(options["root"] or options["schemes"])

    def _tell_policy(self) -> None:
        policy = read_policy()
        self.say(f"exports are {'allowed' if policy.allowed else 'refused'}")
        self.say(f"folders: within {policy.root}; admins and commands elsewhere too")
        self.say(f"URLs, for admins and commands: {', '.join(policy.schemes) or 'none'}")


def _wish(slot: Slot, options: dict[str, Any]) -> tuple[Wish, str]:
    """What is asked for, and where to: of a continued one what its last says, unless given."""
    name, words, target = options["name"], words_of(options), options["to"] or ""
    if options["since_last"]:
        if not name:
            raise CommandError("--since-last continues a name: give --name")
        last = exports.last_done(slot, name)
        if last is not None:
            words = words or {k: v for k, v in last.words.items() if k != "slot"}
            target = target or last.target
    before = options["before"]
    wish = read_wish(slot, words, name=name, since_last=options["since_last"], before=before)
    return wish, target


def _split(text: str) -> list[str]:
    return [one.strip().lower() for one in text.split(",") if one.strip()]
