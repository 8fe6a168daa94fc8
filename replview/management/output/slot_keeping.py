"""``replview slot set --keep-for --keep-at-most``: what a slot keeps, and what would be lost."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from replview.management.output.instance import PlainCommand
from replview.store.models import Slot
from replview.store.retention.forecast import of_slot
from replview.store.retention.loss import loss_of
from replview.store.retention.policy import Keeping, change_keeping, check
from replview.store.write.access_record import Action, note
from replview.text.formats import count_words
from replview.ui.retention_text import (
    has_words,
    keeping_words,
    loss_notes,
    loss_sentence,
    parse_keep_at_most,
    parse_keep_for,
    slot_forecast_words,
)

_TABLES_SHOWN = 10


def add_options(parser: ArgumentParser) -> None:
    """How long and how much."""
    parser.add_argument("--keep-for", metavar="TIME", help="delete days of its record that are "
                        "older: 30d, 12w, or none")  # fmt: skip
    parser.add_argument("--keep-at-most", metavar="SIZE", help="delete its oldest days where its "
                        "record takes more of the store: 50GB, or none")  # fmt: skip
    parser.add_argument("--yes", action="store_true", help="delete what would be lost without "
                        "asking")  # fmt: skip


def is_asked(options: dict[str, Any]) -> bool:
    """Whether what the slot keeps is to change."""
    return options["keep_for"] is not None or options["keep_at_most"] is not None


def run(command: PlainCommand, slot: Slot, options: dict[str, Any]) -> None:
    """Say what would be lost, ask, choose."""
    if slot.temporary:
        raise CommandError(f"slot {slot} is a temporary one: it goes with its connection")
    asked = _asked(slot, options)
    loss = loss_of(slot, asked)
    if asked != Keeping.of(slot):
        command.say(loss_sentence(loss))
        for name, changes in loss.tables[:_TABLES_SHOWN]:
            command.say(f"  {name}: about {count_words(changes)} changes")
        if len(loss.tables) > _TABLES_SHOWN:
            command.say(f"  and {len(loss.tables) - _TABLES_SHOWN} more tables")
        for line in loss_notes(loss):
            command.say(line)
        question = f"Keep {slot} {keeping_words(asked)}, and delete that?"
        if loss.is_to_be_confirmed and not command.confirm(question, options["yes"]):
            raise CommandError("nothing was changed")
        slot = change_keeping(slot, asked, by="the command line")
        note(
            Action.CHANGED_SETTINGS,
            subject=f"what {slot} keeps: {keeping_words(asked)}",
            source_id=slot.source_id,
        )
    told = of_slot(slot)
    command.say(f"slot {slot} keeps its record {keeping_words(asked)}")
    command.say(f"{has_words(told)}; {slot_forecast_words(told)}")


def _asked(slot: Slot, options: dict[str, Any]) -> Keeping:
    """What was named, and of the rest what holds. Raises ``CommandError``."""
    days, size = slot.keep_for_days, slot.keep_at_most_bytes
    try:
        if options["keep_for"] is not None:
            days = parse_keep_for(options["keep_for"])
        if options["keep_at_most"] is not None:
            size = parse_keep_at_most(options["keep_at_most"])
        keeping = Keeping(days, size)
        check(keeping)
    except ValueError as error:
        raise CommandError(str(error)) from None
    return keeping
