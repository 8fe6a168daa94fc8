"""``replview slot set|interface``: the slot's WAL budget, heartbeat, retention and interface."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db.models import F

from replview.acts.noting import note_slot
from replview.catalog.plan.new_slot import HEARTBEAT_BOUNDS, heartbeat_line
from replview.catalog.wal_budget import DATABASE, RECORD, budget_note, read_budget
from replview.management.instance import BY, OPTIONS, PlainCommand, add_slot_action, slot_of
from replview.store.models import Slot
from replview.store.retention.forecast import loss_of, of_slot
from replview.store.retention.policy import Keeping, change_keeping, check
from replview.store.slot_budget import change_budget
from replview.store.write.access_record import Action, note
from replview.text.formats import count_words
from replview.text.parsing import whole_number
from replview.text.problem import with_place
from replview.text.sizes import parse_limit
from replview.ui import retention_text

_TABLES_SHOWN = 10


def add_budget_options(parser: ArgumentParser) -> None:
    """Add the options of WAL budget and heartbeat, for ``slot add`` and ``slot set``."""
    parser.add_argument("--wal-budget", metavar="SIZE", help="WAL that the slot may retain on its "
                        "source (default: half of max_slot_wal_keep_size, else 10GB)")  # fmt: skip
    parser.add_argument("--protect", choices=Slot.Protect.values, help="at the budget: drop the "
                        "slot and accept a gap (database), or only warn (record)")  # fmt: skip
    parser.add_argument("--heartbeat", metavar="SECONDS", help="write a message to the source "
                        "when nothing was committed for this long")  # fmt: skip


def budget_request(options: dict[str, Any]) -> dict[str, object]:
    """Return the options as fields of a ``SlotRequest``.

    Raises ``SourceProblem`` for an invalid size, ``CommandError`` for a missing budget or an
    invalid heartbeat.
    """
    request_fields: dict[str, Any] = {"protect": options["protect"] or ""}
    if options["wal_budget"] is not None:
        request_fields["wal_budget_bytes"] = read_budget(options["wal_budget"])
        if request_fields["wal_budget_bytes"] is None:
            raise CommandError(
                "a slot that replview creates needs a WAL budget; to be warned only, give "
                "--protect "
                "record"
            )
    if options["heartbeat"] is not None:
        request_fields["heartbeat_seconds"] = _heartbeat_seconds(options["heartbeat"])
    return request_fields


def add_set(actions: Any) -> None:
    """Add the parser of ``slot set``."""
    help_text = "change a slot's WAL budget, heartbeat and retention"
    parser = add_slot_action(actions, "set", help_text)
    add_budget_options(parser)
    _add_retention_options(parser)


def change(command: PlainCommand, options: dict[str, Any]) -> None:
    """Change the given settings and print the present ones; the receiver does not restart."""
    slot = slot_of(options)
    if options["keep_for"] is not None or options["keep_at_most"] is not None:
        _run_retention(command, slot, options)
        if not any(options[name] for name in ("wal_budget", "protect", "heartbeat")):
            return
    slot = change_budget(slot, _changes_of(slot, options), by=BY)
    holds = budget_note(slot.name, slot.wal_budget_bytes, slot.protect)
    command.say(f"slot {slot}: {with_place(holds.text, holds.field, OPTIONS)}")
    if slot.protect == DATABASE and slot.wal_budget_bytes is not None and not slot.owned:
        command.say("replview did not create this slot and may drop it now, as you asked")
    seconds = slot.heartbeat_seconds
    command.say("no heartbeat is written" if seconds is None else heartbeat_line(seconds))


def _changes_of(slot: Slot, options: dict[str, Any]) -> dict[str, object]:
    """Return the options as values of the slot's fields. Raises ``CommandError``."""
    changed: dict[str, Any] = {}
    if options["wal_budget"] is not None:
        changed["wal_budget_bytes"] = read_budget(options["wal_budget"])
        if not slot.owned and not options["protect"]:
            # Drop a slot that replview did not create only if --protect database was given.
            changed["protect"] = RECORD
    if options["protect"]:
        changed["protect"] = options["protect"]
    if options["heartbeat"] is not None:
        changed["heartbeat_seconds"] = _heartbeat_seconds(options["heartbeat"])
    if slot.temporary and changed:
        raise CommandError(f"slot {slot} is temporary: it ends with its connection")
    if changed.get("heartbeat_seconds") and slot.source.in_recovery:
        raise CommandError(f"{slot.source} is a standby: no heartbeat can be written there")
    return changed


def _heartbeat_seconds(text: str) -> int | None:
    if text.strip().lower() in ("none", "off", "0"):
        return None
    shortest, longest = HEARTBEAT_BOUNDS
    seconds = whole_number(text, digits=8)
    if seconds is None or not shortest <= seconds <= longest:
        raise CommandError(
            f"--heartbeat is a number of seconds from {shortest} to {longest}, or none"
        )
    return seconds


def _add_retention_options(parser: ArgumentParser) -> None:
    parser.add_argument("--keep-for", metavar="TIME", help="delete days of its history that are "
                        "older: 30d, 12w, or none")  # fmt: skip
    parser.add_argument("--keep-at-most", metavar="SIZE", help="delete its oldest days when its "
                        "history takes more of the store: 50GB, or none")  # fmt: skip
    parser.add_argument("--yes", action="store_true", help="delete older history without "
                        "asking")  # fmt: skip


def _run_retention(command: PlainCommand, slot: Slot, options: dict[str, Any]) -> None:
    if slot.temporary:
        raise CommandError(f"slot {slot} is temporary: it ends with its connection")
    keeping = _keeping_of(slot, options)
    loss = loss_of(slot, keeping)
    if keeping != Keeping.of(slot):
        command.say(retention_text.loss_sentence(loss))
        for name, changes in loss.tables[:_TABLES_SHOWN]:
            command.say(f"  {name}: about {count_words(changes)} changes")
        if len(loss.tables) > _TABLES_SHOWN:
            command.say(f"  and {len(loss.tables) - _TABLES_SHOWN} more tables")
        command.say(*retention_text.loss_notes(loss))
        question = f"Keep {slot} {retention_text.keeping_words(keeping)}, and delete that?"
        if loss.is_to_be_confirmed and not command.confirm(question, options["yes"]):
            raise CommandError("nothing was changed")
        slot = change_keeping(slot, keeping, by=BY)
        subject = f"what {slot} keeps: {retention_text.keeping_words(keeping)}"
        note(Action.CHANGED_SETTINGS, subject=subject, source_id=slot.source_id)
    forecast = of_slot(slot)
    command.say(f"slot {slot} keeps its record {retention_text.keeping_words(keeping)}")
    command.say(
        f"{retention_text.has_words(forecast)}; {retention_text.slot_forecast_words(forecast)}"
    )


def _keeping_of(slot: Slot, options: dict[str, Any]) -> Keeping:
    """Return the retention with the given options changed. Raises ``CommandError``."""
    days, size = slot.keep_for_days, slot.keep_at_most_bytes
    try:
        if options["keep_for"] is not None:
            days = retention_text.parse_keep_for(options["keep_for"])
        if options["keep_at_most"] is not None:
            size = parse_limit(options["keep_at_most"])
        keeping = Keeping(days, size)
        check(keeping)
    except ValueError as error:
        raise CommandError(str(error)) from None
    return keeping


def add_interface(actions: Any) -> None:
    """Add the parser of ``slot interface``."""
    help_text = "choose how to read the slot: replication connection or SQL functions"
    parser = add_slot_action(actions, "interface", help_text)
    parser.add_argument("interface", choices=Slot.Interface.values)


def change_interface(command: PlainCommand, options: dict[str, Any]) -> None:
    """Change how the slot is read; a running receiver is replaced."""
    slot = slot_of(options)
    if slot.temporary:
        raise CommandError(f"slot {slot} is temporary: it ends with its replication connection")
    # A higher epoch ends the running receiver; the next one starts at once.
    changed = Slot.objects.filter(pk=slot.pk).exclude(interface=options["interface"])
    if changed.update(
        interface=options["interface"], epoch=F("epoch") + 1, lease_owner="", heartbeat_at=None
    ):
        note_slot(slot, "settings", "Changed: interface.", by=BY, settings=["interface"])
    interface_text = (
        "a replication connection" if options["interface"] == "walsender" else "SQL functions"
    )
    command.say(f"slot {slot} is received through {interface_text}")
