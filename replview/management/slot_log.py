"""``replview slot log``: what happened to a slot."""

import time
from typing import Any

import orjson
from django.core.management.base import CommandError
from django.db import OperationalError, connection

from replview.access.visibility import reading_session
from replview.management import instance
from replview.store.models import Slot, SlotEvent
from replview.store.read.changes.records import utc_text
from replview.store.read.seen import seen_statements
from replview.store.slot_log import LogReader, read_log

_LOOK_SECONDS = 0.5
_LINES = 50


def add_log(actions: Any) -> None:
    parser = instance.add_slot_action(actions, "log", "what happened to the slot, newest last")
    parser.add_argument("--lines", type=int, default=_LINES, metavar="N",
                        help=f"how many to begin with (default: {_LINES})")  # fmt: skip
    parser.add_argument("--kind", nargs="+", action="extend", default=[], metavar="KIND",
                        help="only these: connected, disconnected, gap, problem, …")  # fmt: skip
    parser.add_argument("--follow", action="store_true", help="go on with what happens later")
    parser.add_argument("--format", choices=["text", "json"], default="text",
                        help="json: an object a line")  # fmt: skip


def log(command: instance.PlainCommand, options: dict[str, Any]) -> None:
    slot = instance.slot_of(options)
    if options["lines"] < 0:
        raise CommandError("--lines is a number of lines: 0 or more")
    kinds = options["kind"]
    form = _as_json if options["format"] == "json" else _as_text
    reader = LogReader(slot, kinds) if options["follow"] else None
    page = read_log(slot, kinds=kinds, limit=options["lines"])
    for line in reversed(page.lines):
        command.say(form(slot, line))
    if reader is not None:
        _follow(command, slot, reader, form)
    elif not page.lines and options["format"] == "text":
        command.say("nothing of this kind has happened" if kinds else "nothing has happened yet: "
                    "the log begins when a receiver takes the slot")  # fmt: skip


def _follow(command: instance.PlainCommand, slot: Slot, reader: LogReader, form: Any) -> None:
    while Slot.objects.filter(pk=slot.pk).exists():
        time.sleep(_LOOK_SECONDS)
        try:
            for line in reader.fresh():
                command.say(form(slot, line))
        except OperationalError:
            connection.close()  # the store restarts: look again


def _as_text(slot: Slot, line: SlotEvent) -> str:
    where = f" [{line.lsn}]" if line.lsn is not None and str(line.lsn) not in line.message else ""
    at = line.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return f"{at}  {line.kind:<12}  {line.message}{where}"


def _as_json(slot: Slot, line: SlotEvent) -> str:
    record = {
        "id": line.pk,
        "source": slot.source.name,
        "slot": slot.name,
        "at": utc_text(line.at),
        "kind": line.kind,
        "message": line.message,
        "lsn": None if line.lsn is None else str(line.lsn),
        "after_commit_seq": line.after_commit_seq,
        "detail": seen_statements(line.detail, reading_session().visibility),
    }
    return orjson.dumps(record).decode()
