"""``replview erase``: erase all values of given rows from the record, the archive and exports."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from replview.features.erasure import queue as erasing
from replview.features.erasure.job import carry_out
from replview.features.erasure.queue import read_erasure_request
from replview.management.instance import InstanceCommand, find_slot, stopping_on_signals, table_of
from replview.store.models import Erasure, Slot
from replview.store.write.access_record import command_user, note
from replview.text.formats import count_words, plural

_EARLIER = 20


class Command(InstanceCommand):
    """The command that erases values of rows, lists erasures and continues them."""

    help = (
        "Erase a person: every value that a slot has recorded of given rows, under all keys they "
        "had, in the store, the archive and every known export. That the rows changed, when and in "
        "which transaction, stays. What a source sends later of the same rows is recorded again: "
        "mask it, or delete it there first."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the slot, the rows and the options of ``erase``."""
        option = parser.add_argument
        option("slot", nargs="?", metavar="SOURCE/SLOT")
        option("table", nargs="?", metavar="TABLE")
        option("keys", nargs="*", metavar="KEY", help="as row history takes it: 42, 'a=1, b=2'")
        option("--key-file", metavar="FILE", help="more rows, one a line: SCHEMA.TABLE KEY, so "
               "that keys are in no shell's history ('-': standard input)")  # fmt: skip
        option("--column", action="append", default=[], metavar="NAME", help="only values of this "
               "column; may be repeated")  # fmt: skip
        option("--actor", default="", metavar="NAME", help="a name among the actors, too: it "
               "becomes 'erased actor N'")  # fmt: skip
        option("--why", default="", metavar="REASON", help="kept with the act; name nobody in it")
        option("--dry-run", action="store_true", help="say what would be touched, and end")
        option("--yes", action="store_true", help="do not ask")
        option("--list", action="store_true", help="what was erased, when, by whom and why")
        option("--go-on", type=int, metavar="N", help="try an unfinished act again, now")
        option("--leave-out", metavar="ROOT", help="with --go-on: end without this folder or URL, "
               "which will never be reached again; that is recorded")  # fmt: skip
        self.add_data(parser)

    def handle(self, **options: Any) -> None:
        """Erase, list or continue, as the options say."""
        if options["list"]:
            self.say(listed(Erasure.objects.all()[:_EARLIER]))
        elif options["go_on"] is not None:
            self._go_on(options["go_on"], options["leave_out"])
        elif options["slot"]:
            self._erase(find_slot(options["slot"]), options)
        else:
            raise CommandError("say of which slot: SOURCE/SLOT TABLE KEY …, or --list")

    def _erase(self, slot: Slot, options: dict[str, Any]) -> None:
        asked = read_erasure_request(slot, _pairs(options), columns=options["column"],
                                     actor=options["actor"], reason=options["why"])  # fmt: skip
        by = command_user()
        row = erasing.request(asked, by=by, how="command")
        self._work(row)
        if row.state != Erasure.State.LOOKED:
            raise CommandError(_words(row.problem_cause or "it was stopped", row.problem_remedy))
        self.say(*found_lines(row, erasing.others_recording(slot, row.tables)))
        if options["dry_run"]:
            erasing.drop(row)
            self.say("nothing was erased")
            return
        if not self._confirmed(row, options["yes"]):
            erasing.drop(row)
            raise CommandError("nothing was erased")
        erasing.confirm(row, by=by)
        note("erased", user=by, subject=f"erasure {row.pk}", source_id=slot.source_id,
             details={"tables": row.tables, "keys": row.keys, "columns": row.columns,
                      "digests": row.digests})  # fmt: skip
        self._work(row)
        self._tell_end(row)

    def _confirmed(self, row: Erasure, yes: bool) -> bool:
        word = erasing.word_of(row)
        if yes:
            return True
        if not sys.stdin.isatty():
            raise CommandError("answer with --yes: there is no terminal to ask at")
        self.stdout.write(f"This cannot be undone. Type {word!r} to go on: ", ending="")
        self.stdout.flush()
        return input().strip() == word

    def _go_on(self, number: int, left_out: str | None) -> None:
        row = Erasure.objects.filter(pk=number).first()
        if row is None:
            raise CommandError(f"there is no erasure {number}: see replview erase --list")
        if left_out and not erasing.leave_out(row, left_out, by=command_user()):
            raise CommandError(f"erasure {number} does not wait for {left_out}")
        self._work(row)
        self._tell_end(row)

    def _work(self, row: Erasure) -> None:
        """Run the erasure in this process, so that no worker is needed."""
        claim = erasing.claim(row.pk)
        if claim is None:
            row.refresh_from_db()
            raise CommandError(f"erasure {row.pk} is {row.state}: done, or a worker has it")
        with stopping_on_signals() as stop:
            carry_out(claim, stop)
        row.refresh_from_db()

    def _tell_end(self, row: Erasure) -> None:
        words = {"done": "erased", "unfinished": "erased so far"}.get(row.state, row.state)
        nothing = "no change of these rows was found in the record"
        sums = _sums(row.erased) if row.erased.get("changes") else nothing
        self.say(f"erasure {row.pk}: {words}: {sums}", *map(_root_line, row.roots))
        if row.state == Erasure.State.UNFINISHED:
            raise CommandError(_words(row.problem_cause, row.problem_remedy))
        if row.state != Erasure.State.DONE:
            raise CommandError(f"stopped: go on with replview erase --go-on {row.pk}")


def _pairs(options: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the tables and keys from the arguments and the key file."""
    found = [(options["table"], key) for key in options["keys"]]
    if options["table"] and not options["keys"] and not options["key_file"]:
        raise CommandError("say which rows: TABLE KEY …, or --key-file")
    name = options["key_file"]
    if not name:
        return found
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text()
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}") from None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        table, _, key = line.strip().partition(" ")
        if options["table"] and not key:
            table, key = options["table"], table
        if not key.strip():
            raise CommandError(f"line {number} of {name} is no TABLE KEY")
        found.append((table, key.strip()))
    return found


def _words(cause: str, remedy: str) -> str:
    return f"{cause}. {remedy}" if remedy else cause


def found_lines(row: Erasure, others: Sequence[str]) -> list[str]:
    """Format what an erasure would erase, and the copies that it does not reach."""
    withheld = "a key is masked: what has it is told when it is erased, so that nobody can guess"
    lines = [withheld if row.found.get("withheld") else _sums(row.found)]
    tables: Mapping[str, int] = row.found.get("tables") or {}
    lines += [f"  {name}: {plural(number, 'change')}" for name, number in tables.items()]
    if days := row.found.get("days") or []:
        lines.append(f"of {plural(len(days), 'day')}: {days[0]} to {days[-1]}")
    beside: Mapping[str, int] = row.found.get("beside") or {}
    lines += [f"beside the record: {count_words(n)} {name}" for name, n in beside.items()]
    lines += [_root_line(root) for root in row.roots]
    if others:
        lines.append(f"recorded by {', '.join(others)} as well: erase there, too")
    lines.append("what the source sends later of these rows is recorded again: see replview mask")
    lines.append("downloads, streams and copies that others made are not known here")
    return lines


def _sums(counts: Mapping[str, Any]) -> str:
    changes, transactions = int(counts.get("changes") or 0), int(counts.get("transactions") or 0)
    words = f"{plural(changes, 'change')} in {plural(transactions, 'transaction')}"
    if large := int(counts.get("large_values") or 0):
        words += f", {plural(large, 'large value')}"
    return words


def _root_line(root: Mapping[str, Any]) -> str:
    name = f"{root['what']} ({root['root']})"
    if root.get("left_out_by"):
        return f"{name}: left out by {root['left_out_by']}"
    if root.get("problem"):
        return f"{name}: not reached: {root['problem']}. {root.get('remedy', '')}".rstrip()
    if root.get("files") is None:
        return f"{name}: not looked at yet"
    files, rows = int(root.get("files") or 0), int(root.get("rows") or 0)
    return f"{name}: {plural(files, 'file')} with {plural(rows, 'change')}"


def listed(rows: Iterable[Erasure]) -> str:
    """Format erasures as a table, or a hint if there are none."""
    lines = [
        [
            str(row.pk),
            f"{row.requested_at:%Y-%m-%d %H:%M}",
            row.confirmed_by or row.requested_by,
            row.slot_name,
            ", ".join(row.tables),
            str(row.keys),
            row.state,
            str((row.erased or row.found).get("changes", "")),
            row.reason,
            row.problem_cause,
        ]
        for row in rows
    ]
    if not lines:
        return "nothing was erased yet: replview erase SOURCE/SLOT TABLE KEY"
    head = ["ID", "ASKED (UTC)", "BY", "SLOT", "TABLES", "KEYS", "STATE", "CHANGES", "WHY",
            "PROBLEM"]  # fmt: skip
    return table_of([head, *lines])
