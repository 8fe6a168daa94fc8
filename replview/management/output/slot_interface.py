"""``replview slot interface``: how a slot is read, a walsender's session or SQL functions."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db.models import F

from replview.acts.noting import note_slot
from replview.management.output.instance import PlainCommand, find_slot
from replview.management.output.slot_acts import BY
from replview.store.models import Slot


def add_action(actions: Any) -> ArgumentParser:
    """The action and its options."""
    parser: ArgumentParser = actions.add_parser(
        "interface", help="read it through a replication connection, or through SQL functions"
    )
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("interface", choices=Slot.Interface.values)
    return parser


def run(command: PlainCommand, options: dict[str, Any]) -> None:
    """Change it; a receiver that runs is replaced by one that reads it so."""
    slot = find_slot(f"{options['source']}/{options['name']}")
    if slot.temporary:
        raise CommandError(
            f"slot {slot} is a temporary one: it lives as long as its replication connection"
        )
    # Raising the epoch ends the receiver that reads it the other way; the next begins at once.
    changed = Slot.objects.filter(pk=slot.pk).exclude(interface=options["interface"])
    if changed.update(
        interface=options["interface"], epoch=F("epoch") + 1, lease_owner="", heartbeat_at=None
    ):
        note_slot(slot, "settings", "Changed: interface.", by=BY, settings=["interface"])
    how = "a replication connection" if options["interface"] == "walsender" else "SQL functions"
    command.say(f"slot {slot} is received through {how}")
