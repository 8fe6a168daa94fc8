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

_EARLIER_SHOWN = 20


class Command(InstanceCommand):
    """The command that erases values of rows, lists erasures and continues them."""

    help = (
        "Erase all recorded values of given rows, for example of a person. They are erased under "
        "all keys the rows had, in the store, the archive and every known export. It stays "
        "recorded that the rows changed, when and in which transaction. Values that the source "
        "sends later are recorded again: mask the column, or delete the row on the source first."
    )
    examples = (
        "replview erase shop/replview public.customers 42 --dry-run",
        "replview erase shop/replview public.customers 42 --why 'request 17'",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the slot, the rows and the options of ``erase``."""
        option = parser.add_argument
        option("slot", nargs="?", metavar="SOURCE/SLOT")
        option("table", nargs="?", metavar="TABLE")
        option("keys", nargs="*", metavar="KEY", help="the row's key, such as 42 or 'a=1, b=2'")
        option("--key-file", metavar="FILE", help="read rows from a file, one SCHEMA.TABLE KEY per "
               "line, so that no shell history holds the keys ('-': standard input)")  # fmt: skip
        option("--column", action="append", default=[], metavar="NAME", help="erase only this "
               "column; may be repeated")  # fmt: skip
        option("--actor", default="", metavar="NAME", help="also replace this actor's name by "
               "'erased actor N'")  # fmt: skip
        option(
            "--why",
            default="",
            metavar="REASON",
            help="recorded with the erasure; do not name the person",
        )
        option(
            "--dry-run", action="store_true", help="show what would be erased, and erase nothing"
        )
        option("--yes", action="store_true", help="do not ask for confirmation")
        option("--list", action="store_true", help="list earlier erasures: when, by whom and why")
        option("--go-on", type=int, metavar="N", help="continue the unfinished erasure N")
        option(
            "--leave-out",
            metavar="ROOT",
            help="with --go-on: skip this folder or URL, because it "
            "cannot be reached any more; this is recorded",
        )
        self.add_data(parser)

    def handle(self, **options: Any) -> None:
        """Erase, list or continue, as the options say."""
        if options["list"]:
            self.say(listed(Erasure.objects.all()[:_EARLIER_SHOWN]))
        elif options["go_on"] is not None:
            self._go_on(options["go_on"], options["leave_out"])
        elif options["slot"]:
            self._erase(find_slot(options["slot"]), options)
        else:
            raise CommandError(
                "name the slot and the rows: SOURCE/SLOT TABLE KEY …, or give --list"
            )

    def _erase(self, slot: Slot, options: dict[str, Any]) -> None:
        request = read_erasure_request(slot, _pairs(options), columns=options["column"],
                                     actor=options["actor"], reason=options["why"])  # fmt: skip
        by = command_user()
        row = erasing.request(request, by=by, how="command")
        self._work(row)
        if row.state != Erasure.State.LOOKED:
            raise CommandError(
                _problem_text(row.problem_cause or "it was stopped", row.problem_remedy)
            )
        self.say(*found_lines(row, erasing.others_recording(slot, row.tables)))
        if options["dry_run"]:
            erasing.drop(row)
            self.say(dry_run_line(row, _pairs(options)))
            return
        if not self._confirmed(row, options["yes"]):
            erasing.drop(row)
            raise CommandError("nothing was erased")
        erasing.confirm(row, by=by)
        note("erased", user=by, subject=f"erasure {row.pk}", source_id=slot.source_id,
             details={"tables": row.tables, "keys": row.keys, "columns": row.columns,
                      "digests": row.digests})  # fmt: skip
        self._work(row)
        self._report_end(row)

    def _confirmed(self, row: Erasure, yes: bool) -> bool:
        confirmation = erasing.word_of(row)
        if yes:
            return True
        if not sys.stdin.isatty():
            raise CommandError("give --yes: there is no terminal to ask at")
        self.stdout.write(f"This cannot be undone. Type {confirmation!r} to erase: ", ending="")
        self.stdout.flush()
        return input().strip() == confirmation

    def _go_on(self, number: int, left_out: str | None) -> None:
        row = Erasure.objects.filter(pk=number).first()
        if row is None:
            raise CommandError(f"there is no erasure {number}: see replview erase --list")
        if left_out and not erasing.leave_out(row, left_out, by=command_user()):
            raise CommandError(f"erasure {number} has no unreached target {left_out}")
        self._work(row)
        self._report_end(row)

    def _work(self, row: Erasure) -> None:
        """Run the erasure in this process, so that no worker is needed."""
        claim = erasing.claim(row.pk)
        if claim is None:
            row.refresh_from_db()
            raise CommandError(
                f"erasure {row.pk} is {row.state}: it has ended, or a worker runs it"
            )
        with stopping_on_signals() as stop:
            carry_out(claim, stop)
        row.refresh_from_db()

    def _report_end(self, row: Erasure) -> None:
        state_text = {"done": "erased", "unfinished": "erased so far"}.get(row.state, row.state)
        no_changes = "these rows have no recorded change"
        sums = _sums(row.erased) if row.erased.get("changes") else no_changes
        self.say(f"erasure {row.pk}: {state_text}: {sums}", *map(_root_line, row.roots))
        if row.state == Erasure.State.UNFINISHED:
            raise CommandError(_problem_text(row.problem_cause, row.problem_remedy))
        if row.state != Erasure.State.DONE:
            raise CommandError(f"stopped: continue with replview erase --go-on {row.pk}")


def _pairs(options: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the tables and keys from the arguments and the key file."""
    pairs = [(options["table"], key) for key in options["keys"]]
    if options["table"] and not options["keys"] and not options["key_file"]:
        raise CommandError("name the rows: TABLE KEY …, or give --key-file")
    name = options["key_file"]
    if not name:
        return pairs
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
        pairs.append((table, key.strip()))
    return pairs


def _problem_text(cause: str, remedy: str) -> str:
    return f"{cause}. {remedy}" if remedy else cause


def found_lines(row: Erasure, others: Sequence[str]) -> list[str]:
    """Format what an erasure would erase, and the copies that it does not reach."""
    withheld = "a key column is masked: the number of changes is shown only after they are erased"
    lines = [withheld if row.found.get("withheld") else _sums(row.found)]
    tables: Mapping[str, int] = row.found.get("tables") or {}
    lines += [f"  {name}: {plural(number, 'change')}" for name, number in tables.items()]
    if days := row.found.get("days") or []:
        lines.append(f"recorded on {_days(days)}")
    other_counts: Mapping[str, int] = row.found.get("beside") or {}
    lines += [f"besides: {count_words(n)} {name}" for name, n in other_counts.items()]
    lines += [_root_line(root) for root in row.roots]
    if others:
        lines.append(f"{', '.join(others)} also records these tables: erase there, too")
    lines.append("changes that the source sends later are recorded again: see replview mask")
    lines.append("downloads and other copies outside replview are not erased")
    return lines


def dry_run_line(row: Erasure, pairs: Sequence[tuple[str, str]]) -> str:
    """Return the sentence that says what a dry run would have erased."""
    if row.found.get("withheld"):
        return "Dry run: nothing was erased."
    rows = f"row {pairs[0][1]}" if len(pairs) == 1 else plural(len(pairs), "row")
    changes = plural(int(row.found.get("changes") or 0), "change")
    return f"Dry run: {changes} of {rows} would be erased."


def _days(days: Sequence[str]) -> str:
    return days[0] if len(days) == 1 else f"{len(days)} days, {days[0]} to {days[-1]}"


def _sums(counts: Mapping[str, Any]) -> str:
    changes, transactions = int(counts.get("changes") or 0), int(counts.get("transactions") or 0)
    text = f"{plural(changes, 'change')} in {plural(transactions, 'transaction')}"
    if large := int(counts.get("large_values") or 0):
        text += f", {plural(large, 'large value')}"
    return text


def _root_line(root: Mapping[str, Any]) -> str:
    name = f"{root['what']} ({root['root']})"
    if root.get("left_out_by"):
        return f"{name}: skipped by {root['left_out_by']}"
    if root.get("problem"):
        return f"{name}: not reached: {root['problem']}. {root.get('remedy', '')}".rstrip()
    if root.get("files") is None:
        when = "searched by Spark when it is erased" if "lake" in root else "not searched yet"
        return f"{name}: {when}"
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
        return "no erasures yet: replview erase SOURCE/SLOT TABLE KEY"
    head = ["ID", "ASKED (UTC)", "BY", "SLOT", "TABLES", "KEYS", "STATE", "CHANGES", "WHY",
            "PROBLEM"]  # fmt: skip
    return table_of([head, *lines])
