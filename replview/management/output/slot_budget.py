"""``replview slot set``: what a slot may cost its source, and what comes first there."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from replview.catalog.plan.slot_step import HEARTBEAT_BOUNDS, heartbeat_line
from replview.catalog.state.wal_budget import (
    DATABASE,
    RECORD,
    budget_lines,
    budget_trouble,
    parse_budget,
)
from replview.management.output import slot_keeping
from replview.management.output.instance import PlainCommand, find_slot
from replview.store.models import Slot
from replview.store.slot_control import change_budget


def add_budget_options(parser: ArgumentParser) -> None:
    """The choice of what comes first: the same for ``slot add`` and ``slot set``."""
    parser.add_argument("--wal-budget", metavar="SIZE", help="WAL the slot may retain on its "
                        "source (default: half of max_slot_wal_keep_size, else 10GB)")  # fmt: skip
    parser.add_argument("--protect", choices=Slot.Protect.values, help="at the budget: drop our "
                        "slot and have a gap (database), or warn only (record)")  # fmt: skip
    parser.add_argument("--heartbeat", metavar="SECONDS", help="write a message to the source "
                        "when nothing was committed for so long")  # fmt: skip


def wishes_of(options: dict[str, Any]) -> dict[str, Any]:
    """The options as fields of a ``Wish``. Raises ``SourceTrouble`` for what is no size."""
    wished: dict[str, Any] = {"protect": options["protect"] or ""}
    if options["wal_budget"] is not None:
        wished["wal_budget_bytes"] = _budget(options["wal_budget"])
        if wished["wal_budget_bytes"] is None:
            raise CommandError(
                "a slot that replview creates has a WAL budget; to be warned only: --protect record"
            )
    if options["heartbeat"] is not None:
        wished["heartbeat_seconds"] = _seconds(options["heartbeat"])
    return wished


def add_action(actions: Any) -> ArgumentParser:
    """The action and its options."""
    parser: ArgumentParser = actions.add_parser(
        "set", help="change its WAL budget, what comes first there, its heartbeat, what it keeps"
    )
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("name", metavar="NAME")
    add_budget_options(parser)
    slot_keeping.add_options(parser)
    return parser


def run(command: PlainCommand, options: dict[str, Any]) -> None:
    """Change what was given and say what holds now; nothing restarts."""
    slot = find_slot(f"{options['source']}/{options['name']}")
    if slot_keeping.is_asked(options):
        slot_keeping.run(command, slot, options)
        if not any(options[name] for name in ("wal_budget", "protect", "heartbeat")):
            return
    changed: dict[str, Any] = {}
    if options["wal_budget"] is not None:
        changed["wal_budget_bytes"] = _budget(options["wal_budget"])
        if not slot.owned and not options["protect"]:
            # Somebody else's slot is dropped only where that was asked for in so many words.
            changed["protect"] = RECORD
    if options["protect"]:
        changed["protect"] = options["protect"]
    if options["heartbeat"] is not None:
        changed["heartbeat_seconds"] = _seconds(options["heartbeat"])
    if slot.temporary and changed:
        raise CommandError(f"slot {slot} is a temporary one: it goes with its connection")
    if changed.get("heartbeat_seconds") and slot.source.in_recovery:
        raise CommandError(f"{slot.source} is a standby: no heartbeat can be written there")
    slot = change_budget(slot, changed, by="the command line")
    for line in budget_lines(slot.name, slot.wal_budget_bytes, slot.protect):
        command.say(f"slot {slot}: {line}")
    if slot.protect == DATABASE and slot.wal_budget_bytes is not None and not slot.owned:
        command.say("replview did not create this slot and may drop it now, as you asked")
    if slot.heartbeat_seconds is None:
        command.say("no heartbeat is written")
    else:
        command.say(heartbeat_line(slot.heartbeat_seconds))


def _budget(text: str) -> int | None:
    try:
        return parse_budget(text)
    except ValueError as error:
        raise budget_trouble(error) from None


def _seconds(text: str) -> int | None:
    if text.strip().lower() in ("none", "off", "0"):
        return None
    least, most = HEARTBEAT_BOUNDS
    if not (text.isascii() and text.isdigit() and len(text) < 9 and least <= int(text) <= most):
        raise CommandError(f"--heartbeat is a number of seconds from {least} to {most}, or none")
    return int(text)
