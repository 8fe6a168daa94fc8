"""``replview slot log``: show the events of a slot."""

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

_POLL_SECONDS = 0.5
_DEFAULT_LINES = 50


def add_log(actions: Any) -> None:
    """Add the parser of ``slot log``."""
    parser = instance.add_slot_action(actions, "log", "show the slot's events, newest last")
    parser.add_argument("--lines", type=int, default=_DEFAULT_LINES, metavar="N",
                        help=f"number of past events (default: {_DEFAULT_LINES})")  # fmt: skip
    parser.add_argument(
        "--kind",
        nargs="+",
        action="extend",
        default=[],
        metavar="KIND",
        help="only these kinds: connected, disconnected, gap, problem, …",
    )
    parser.add_argument("--follow", action="store_true", help="keep running, and print new events")
    parser.add_argument("--format", choices=["text", "json"], default="text",
                        help="json: one object per line")  # fmt: skip


def log(command: instance.PlainCommand, options: dict[str, Any]) -> None:
    """Print the slot's last events and, with ``--follow``, new ones as they happen."""
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
        command.say("no event of this kind" if kinds else "no events yet: the log begins when a "
                    "receiver starts to read the slot")  # fmt: skip


def _follow(command: instance.PlainCommand, slot: Slot, reader: LogReader, form: Any) -> None:
    while Slot.objects.filter(pk=slot.pk).exists():
        time.sleep(_POLL_SECONDS)
        try:
            for line in reader.fresh():
                command.say(form(slot, line))
        except OperationalError:
            connection.close()  # the store restarts: connect again


def _as_text(slot: Slot, line: SlotEvent) -> str:
    lsn_text = (
        f" [{line.lsn}]" if line.lsn is not None and str(line.lsn) not in line.message else ""
    )
    time_text = line.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return f"{time_text}  {line.kind:<12}  {line.message}{lsn_text}"


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
