"""``replview slot start|stop|tables|columns|remove``: the acts of the pages, asked for here."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from replview.acts import dropping, receiving
from replview.acts.columns import NamedColumns, change_columns, plan_columns
from replview.acts.noting import declared_words
from replview.acts.tables import change_tables, plan_tables
from replview.catalog.plan.plan import Plan
from replview.management.instance import (
    BY,
    PlainCommand,
    add_slot_action,
    lines_of,
    slot_of,
)
from replview.store.models import Slot

#: Who did it, where a command did: the access record knows the account.


def add_actions(actions: Any) -> list[ArgumentParser]:
    """The actions and their options."""
    parsers = {}
    for name, text in (
        ("start", "receive the slot; one its source no longer has is created anew"),
        ("stop", "stop receiving; the slot stays and holds WAL"),
        ("tables", "add tables to its publications, or remove some"),
        ("columns", "keep, mask or leave out columns of the tables it records"),
        ("remove", "drop our own slot and publications, and forget what was stored of it"),
    ):
        parser = add_slot_action(actions, name, text)
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parsers[name] = parser
    several: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
    parsers["tables"].add_argument("--add", **several, metavar="SCHEMA.TABLE",
                                   help="record these from now on")  # fmt: skip
    parsers["tables"].add_argument("--remove", **several, metavar="SCHEMA.TABLE",
                                   help="record these no more")  # fmt: skip
    column = {**several, "metavar": "SCHEMA.TABLE.COLUMN"}
    parsers["columns"].add_argument("--exclude-column", **column, help="keep it no more; where the "
                                    "publication is ours, from 15 on the source does not even send "
                                    "it")  # fmt: skip
    parsers["columns"].add_argument("--mask-column", **column, help="keep only that there was a "
                                    "value")  # fmt: skip
    parsers["columns"].add_argument("--keep-column", **column, help="keep it again as it comes")
    parsers["remove"].add_argument("--leave-on-source", action="store_true",
                                   help="only forget it here")  # fmt: skip
    parsers["remove"].add_argument("--keep-record", action="store_true",
                                   help="drop it there, and keep what was stored")  # fmt: skip
    return list(parsers.values())


def run(command: PlainCommand, options: dict[str, Any]) -> None:
    """Do it."""
    slot = slot_of(options)
    if slot.desired == Slot.Desired.REMOVING and options["action"] != "remove":
        raise CommandError(f"slot {slot} is being removed")
    if words := declared_words(slot.source):
        command.say(words)
    _RUN[options["action"]](command, slot, options)


def _start(command: PlainCommand, slot: Slot, options: dict[str, Any]) -> None:
    if slot.problem_code in receiving.GONE:
        act = receiving.plan_start(slot)
        if act.statements:
            command.say(f"{slot.source} has no slot {slot.name} any more")
            command.say(*lines_of(act))
            command.agree("Run this?", options["yes"])
    receiving.start(slot, by=BY, say=command.say)
    command.say(f"slot {slot} starts within a few seconds")


def _stop(command: PlainCommand, slot: Slot, options: dict[str, Any]) -> None:
    receiving.stop(slot, by=BY)
    command.say(f"slot {slot} stops; on its source it stays and holds WAL")


def _tables(command: PlainCommand, slot: Slot, options: dict[str, Any]) -> None:
    if not options["add"] and not options["remove"]:
        raise CommandError("name tables: --add SCHEMA.TABLE, --remove SCHEMA.TABLE")
    tables = {"add": options["add"], "remove": options["remove"]}
    _agree(command, plan_tables(slot, **tables), "Run this?", options)
    changes = change_tables(slot, **tables, by=BY)
    command.say(f"the tables of {slot} are changed")
    if changes.joining:
        names = " ".join(changes.joining)
        command.say(f"their present rows are not in the record: replview baseline {slot} {names}")


def _columns(command: PlainCommand, slot: Slot, options: dict[str, Any]) -> None:
    named = NamedColumns(keep=options["keep_column"], mask=options["mask_column"],
                         exclude=options["exclude_column"])  # fmt: skip
    if not (named.keep or named.mask or named.exclude):
        raise CommandError("name columns: --exclude-column, --mask-column or --keep-column "
                           "SCHEMA.TABLE.COLUMN")  # fmt: skip
    _agree(command, plan_columns(slot, named), "Change them?", options)
    change_columns(slot, named, by=BY)
    command.say(f"the columns of {slot} are changed")


def _agree(command: PlainCommand, act: Plan, question: str, options: dict[str, Any]) -> None:
    """Show it and ask. Raises ``SourceProblem`` and, where the answer is no, ``CommandError``."""
    act.check()
    command.say(*lines_of(act))
    command.agree(question, options["yes"])


def _remove(command: PlainCommand, slot: Slot, options: dict[str, Any]) -> None:
    how = {"keep_record": options["keep_record"], "leave_on_source": options["leave_on_source"]}
    stored = f"the {slot.transactions_stored:,} transactions stored"
    question = (
        f"Drop slot {slot} and keep {stored}?"
        if options["keep_record"]
        else f"Remove slot {slot} and {stored}?"
    )
    _agree(command, dropping.plan_drop(slot, **how), question, options)
    dropping.drop_slot(slot, **how, by=BY, say=command.say)
    if options["keep_record"]:
        command.say(f"slot {slot} dropped; its record is kept")
    else:
        command.say(f"slot {slot} removed; what was stored of it is deleted in the background "
                    "('replview slot list' shows how far)")  # fmt: skip


_RUN = {"start": _start, "stop": _stop, "tables": _tables, "columns": _columns, "remove": _remove}
#: What ``run`` does.
ACTIONS = frozenset(_RUN)
