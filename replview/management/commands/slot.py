"""``replview slot``: create, change and remove slots, and look into them."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from replview.acts import dropping, receiving
from replview.acts.columns import NamedColumns, change_columns, plan_columns
from replview.acts.noting import declared_words, note_slot
from replview.acts.slot_making import make_slot
from replview.acts.tables import change_tables, plan_tables
from replview.catalog.connections import reading
from replview.catalog.plan.new_slot import SlotPlan, make_plan
from replview.catalog.plan.plan import Plan
from replview.catalog.plan.slot_request import PLUGIN_OPTIONS, SlotRequest, parse_columns
from replview.health.fleet import SlotView, read_fleet
from replview.jobs import baselines
from replview.management import instance, slot_log, slot_peek, slot_quarantine, slot_settings
from replview.management.commands import baseline
from replview.store.dsn import full_conninfo
from replview.store.models import Slot
from replview.text.formats import plural

#: Maps actions with a module of their own to the functions that add and run them.
_ACTIONS_OF_MODULES = {
    "interface": (slot_settings.add_interface, slot_settings.change_interface),
    "set": (slot_settings.add_set, slot_settings.change),
    "log": (slot_log.add_log, slot_log.log),
    "quarantine": (slot_quarantine.add_quarantine, slot_quarantine.quarantine),
    "peek": (slot_peek.add_peek, slot_peek.look_into),
}


class Command(instance.Actions, instance.InstanceCommand):
    """The command that manages replication slots."""

    help = "Create, change and remove replication slots, and look into any slot of a source."
    examples = (
        "replview slot add shop replview --tables public.orders public.customers",
        "replview slot list",
        "replview slot peek shop other_slot",
    )

    def add_actions(self, actions: Any) -> None:
        """Add the parsers of all actions on slots."""
        add = instance.add_slot_action(
            actions, "add", "create or adopt a slot; the statements are shown first"
        )
        add_plan_options(add)
        add.add_argument("--adopt", action="store_true", help="take over an existing slot")
        add.add_argument("--no-two-phase", action="store_true", help="decode prepared transactions "
                         "only when they are committed")  # fmt: skip
        add.add_argument("--interface", choices=Slot.Interface.values, default="walsender",
                         help="sql: for servers that refuse replication connections")  # fmt: skip
        slot_settings.add_budget_options(add)
        add.add_argument("--failover", action="store_true", help="synchronize it to standbys "
                         "(PostgreSQL 17 or later)")  # fmt: skip
        add.add_argument("--keep-aborted", action="store_true", help="keep rolled back changes, "
                         "marked as such")  # fmt: skip
        add.add_argument("--baseline", action="store_true", help="also store the present rows of "
                         "its tables")  # fmt: skip
        add.add_argument("--stopped", action="store_true", help="do not start receiving yet")
        add.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        listing = actions.add_parser("list", help="list all slots with state and position")
        listing.add_argument("--format", choices=["text", "json"], default="text")
        add_actions(actions)
        for add_action, _ in _ACTIONS_OF_MODULES.values():
            add_action(actions)

    def handle(self, **options: Any) -> None:
        """Run the action, in this module or in the module that implements it."""
        if options["action"] in _RUNNERS:
            run_act(self, options)
        elif options["action"] in _ACTIONS_OF_MODULES:
            _ACTIONS_OF_MODULES[options["action"]][1](self, options)
        else:
            super().handle(**options)

    def _add(self, options: dict[str, Any]) -> None:
        source = instance.find_source(options["source"])
        if Slot.objects.filter(source=source, name=options["name"]).exists():
            raise CommandError(f"replview already has a slot {source}/{options['name']}")
        pgoutput = parse_options(options["option"])
        request = request_from(options, options["name"], adopt=options["adopt"],
                         two_phase=not options["no_two_phase"], failover=options["failover"],
                         **slot_settings.budget_request(options))  # fmt: skip
        conninfo = full_conninfo(source)
        plan = plan_for(conninfo, request)
        self.say(
            f"on {source} this will run:" if plan.statements else f"on {source} nothing is created:"
        )
        self.say(*instance.lines_of_slot(plan))
        if plan.statements and not self.confirm("Run this?", options["yes"]):
            raise CommandError("nothing was changed")
        slot = make_slot(source, conninfo, plan, self.say, stopped=options["stopped"],
                         options=pgoutput, interface=options["interface"],
                         keep_aborted=options["keep_aborted"])  # fmt: skip
        act, verb = ("create", "created") if plan.owned else ("adopt", "adopted")
        note_slot(slot, act, f"The slot was {verb}.", by=instance.BY)
        state = "stopped" if options["stopped"] else "receiving starts within a few seconds"
        self.say(f"slot {slot} added; {state}")
        self._offer_baseline(slot, wanted=options["baseline"], yes=options["yes"])

    def _offer_baseline(self, slot: Slot, *, wanted: bool, yes: bool) -> None:
        """Take a baseline with ``--baseline``; at a terminal, offer one without it."""
        if slot.plugin != "pgoutput" or not (wanted or (sys.stdin.isatty() and not yes)):
            self.say(f"to store the present rows of its tables: replview baseline {slot} --all")
            return
        tables = baseline.tables_for(slot, [], everything=True)
        self.say(*baseline.cost_lines(tables))
        if not self.confirm(f"Take a baseline of {plural(len(tables), 'table')}?", yes):
            return
        for schema, table in tables:
            baselines.request(slot, schema, table, by=instance.BY)
        self.say(f"{plural(len(tables), 'baseline')} requested; 'replview baseline {slot}' shows "
                 "their progress")  # fmt: skip

    def _list(self, options: dict[str, Any]) -> None:
        slots = [
            _facts(view) for view in sorted(read_fleet().slots, key=lambda view: view.full_name)
        ]
        empty = "no slots yet: replview slot add SOURCE NAME"
        self.say_facts(slots, options["format"], empty, row=_row)


def add_plan_options(parser: ArgumentParser) -> None:
    """Add the options of tables and columns that ``slot add`` and ``watch`` share."""
    several: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
    parser.add_argument("--publication", **several, metavar="NAME", help="use these existing "
                        "publications")  # fmt: skip
    parser.add_argument("--tables", **several, metavar="SCHEMA.TABLE", help="publish these "
                        "tables (default: all)")  # fmt: skip
    parser.add_argument("--schema", **several, metavar="SCHEMA", help="publish all tables of "
                        "these schemas")  # fmt: skip
    parser.add_argument(
        "--all-tables", action="store_true", help="create one publication FOR ALL TABLES"
    )
    column = {**several, "metavar": "SCHEMA.TABLE.COLUMN"}
    parser.add_argument("--exclude-column", **column, help="never store this column; PostgreSQL "
                        "15 or later does not send it")  # fmt: skip
    parser.add_argument("--mask-column", **column, help="store that there was a value, not the "
                        "value")  # fmt: skip
    parser.add_argument("--option", **several, metavar="NAME=VALUE",
                        help=f"option of pgoutput: {', '.join(PLUGIN_OPTIONS)}")  # fmt: skip


def request_from(options: dict[str, Any], slot_name: str, **more: Any) -> SlotRequest:
    """Return the options as a request. Raises ``CommandError`` if they contradict each other."""
    chosen = options["tables"] or options["schema"] or options["all_tables"]
    if options["publication"] and chosen:
        raise CommandError(
            "--publication uses existing publications as they are: it cannot be combined with "
            "--tables, --schema or --all-tables"
        )
    return SlotRequest(
        slot_name=slot_name,
        publications=tuple(options["publication"]),
        tables=tuple(options["tables"]),
        schemas=tuple(options["schema"]),
        all_tables=options["all_tables"],
        exclude=parse_columns(options["exclude_column"]),
        mask=parse_columns(options["mask_column"]),
        **more,
    )


def plan_for(conninfo: str, request: SlotRequest) -> SlotPlan:
    """Return the plan that creates the slot. Raises ``SourceProblem``."""
    with reading(conninfo, deadline_seconds=60) as connection:
        return make_plan(connection, request)


def parse_options(texts: list[str]) -> dict[str, object]:
    """Return ``NAME=VALUE`` texts as ``Slot.options``. Raises ``CommandError``."""
    options: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if value not in PLUGIN_OPTIONS.get(name, ()):
            allowed = "; ".join(
                f"{key}={'|'.join(values)}" for key, values in PLUGIN_OPTIONS.items()
            )
            raise CommandError(f"--option {text} is not one of: {allowed}")
        options[name] = value
    return options


def _facts(view: SlotView) -> dict[str, object]:
    slot, health = view.slot, view.health
    removing = slot.desired == Slot.Desired.REMOVING
    return {
        "source": slot.source.name,
        "name": slot.name,
        "plugin": slot.plugin,
        "interface": slot.interface,
        "publications": slot.publications,
        "options": slot.options,
        "owned": slot.owned,
        "temporary": slot.temporary,
        "desired": slot.desired,
        "state": "removing" if removing else slot.state,
        "checkpoint_lsn": str(slot.checkpoint_lsn) if slot.checkpoint_lsn else None,
        "server_lsn": str(slot.server_lsn) if slot.server_lsn else None,
        "transactions_stored": slot.transactions_stored,
        "changes_stored": slot.changes,
        "changes_rolled_back": slot.changes_rolled_back,
        "problem": slot.problem_cause or None,
        "remedy": slot.problem_remedy or None,
        "health": health.title,
        "cause": health.cause or None,
        "next_step": health.next_step or None,
    }


def _row(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "slot": f"{facts['source']}/{facts['name']}",
        "state": facts["state"],
        "stored_up_to": facts["checkpoint_lsn"] or "unknown",
        "transactions": f"{facts['transactions_stored']:,}",
        "changes": f"{facts['changes_stored']:,}",
        "rolled_back": f"{facts['changes_rolled_back']:,}",
        "health": facts["health"],
        "problem": facts["problem"],
        "next_step": facts["next_step"],
    }


def add_actions(actions: Any) -> None:
    """Add the parsers of the actions on an existing slot."""
    parsers = {}
    for name, text in (
        ("start", "start receiving; a slot that is gone from its source is created again"),
        ("stop", "stop receiving; the slot stays and retains WAL"),
        ("tables", "add tables to the slot's publications, or remove some"),
        ("columns", "store, mask or exclude columns of the slot's tables"),
        ("remove", "drop the slot and the publications replview created, and delete its history"),
    ):
        parser = instance.add_slot_action(actions, name, text)
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        parsers[name] = parser
    several: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
    parsers["tables"].add_argument("--add", **several, metavar="SCHEMA.TABLE",
                                   help="record these tables from now on")  # fmt: skip
    parsers["tables"].add_argument("--remove", **several, metavar="SCHEMA.TABLE",
                                   help="stop recording these tables")  # fmt: skip
    column = {**several, "metavar": "SCHEMA.TABLE.COLUMN"}
    parsers["columns"].add_argument("--exclude-column", **column, help="stop storing this "
                                    "column; with a publication that replview created, PostgreSQL "
                                    "15 or later does not send it")  # fmt: skip
    parsers["columns"].add_argument("--mask-column", **column, help="store that there was a "
                                    "value, not the value")  # fmt: skip
    parsers["columns"].add_argument("--keep-column", **column, help="store this column again")
    parsers["remove"].add_argument("--leave-on-source", action="store_true",
                                   help="drop nothing on the source")  # fmt: skip
    parsers["remove"].add_argument("--keep-record", action="store_true",
                                   help="drop the slot, and keep its history")  # fmt: skip


def run_act(command: instance.PlainCommand, options: dict[str, Any]) -> None:
    """Run an action on an existing slot, unless the slot is being removed."""
    slot = instance.slot_of(options)
    if slot.desired == Slot.Desired.REMOVING and options["action"] != "remove":
        raise CommandError(f"slot {slot} is being removed")
    if warning := declared_words(slot.source):
        command.say(warning)
    _RUNNERS[options["action"]](command, slot, options)


def _start_slot(command: instance.PlainCommand, slot: Slot, options: dict[str, Any]) -> None:
    if slot.problem_code in receiving.GONE:
        act = receiving.plan_start(slot)
        if act.statements:
            command.say(f"slot {slot.name} is gone from {slot.source}")
            command.say(*instance.lines_of(act))
            command.agree("Run this?", options["yes"])
    receiving.start(slot, by=instance.BY, say=command.say)
    command.say(f"slot {slot} starts within a few seconds")


def _stop_slot(command: instance.PlainCommand, slot: Slot, _: dict[str, Any]) -> None:
    receiving.stop(slot, by=instance.BY)
    command.say(f"slot {slot} stops; it stays on its source and retains WAL")


def _change_tables(command: instance.PlainCommand, slot: Slot, options: dict[str, Any]) -> None:
    if not options["add"] and not options["remove"]:
        raise CommandError("name tables: --add SCHEMA.TABLE, --remove SCHEMA.TABLE")
    tables = {"add": options["add"], "remove": options["remove"]}
    _agree(command, plan_tables(slot, **tables), "Run this?", options)
    changes = change_tables(slot, **tables, by=instance.BY)
    command.say(f"the tables of {slot} are changed")
    if changes.joining:
        names = " ".join(changes.joining)
        command.say(f"to store their present rows: replview baseline {slot} {names}")


def _change_columns(command: instance.PlainCommand, slot: Slot, options: dict[str, Any]) -> None:
    named_columns = NamedColumns(keep=options["keep_column"], mask=options["mask_column"],
                         exclude=options["exclude_column"])  # fmt: skip
    if not (named_columns.keep or named_columns.mask or named_columns.exclude):
        raise CommandError("name columns: --exclude-column, --mask-column or --keep-column "
                           "SCHEMA.TABLE.COLUMN")  # fmt: skip
    _agree(command, plan_columns(slot, named_columns), "Change them?", options)
    change_columns(slot, named_columns, by=instance.BY)
    command.say(f"the columns of {slot} are changed")


def _agree(
    command: instance.PlainCommand, act: Plan, question: str, options: dict[str, Any]
) -> None:
    """Show the plan and ask. Raises ``SourceProblem``, or ``CommandError`` if the answer is no."""
    act.check()
    command.say(*instance.lines_of(act))
    command.agree(question, options["yes"])


def _remove_slot(command: instance.PlainCommand, slot: Slot, options: dict[str, Any]) -> None:
    choices = {"keep_record": options["keep_record"], "leave_on_source": options["leave_on_source"]}
    stored = f"the {slot.transactions_stored:,} transactions stored"
    question = (
        f"Drop slot {slot} and keep {stored}?"
        if options["keep_record"]
        else f"Remove slot {slot} and {stored}?"
    )
    _agree(command, dropping.plan_drop(slot, **choices), question, options)
    dropping.drop_slot(slot, **choices, by=instance.BY, say=command.say)
    if options["keep_record"]:
        command.say(f"slot {slot} dropped; its history is kept")
    else:
        command.say(f"slot {slot} removed; its history is deleted in the background "
                    "('replview slot list' shows the progress)")  # fmt: skip


_RUNNERS = {
    "start": _start_slot,
    "stop": _stop_slot,
    "tables": _change_tables,
    "columns": _change_columns,
    "remove": _remove_slot,
}
