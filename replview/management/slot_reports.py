"""``replview slot log|peek|quarantine``: what happened to a slot, what waits in any idle one (it is
not moved), and what could not be stored, with the decision about it.
"""

import time
from typing import Any

import orjson
from django.core.management.base import CommandError
from django.db import OperationalError, connection

from replview.catalog.connections import reading
from replview.catalog.peekable import Place, read_place
from replview.catalog.slots import SlotFacts
from replview.features.peeks.job import without_masked
from replview.features.peeks.text import Found, counts_words, size_words
from replview.features.slots.quarantine_text import tag_words, thing
from replview.management import instance
from replview.receiver.peek import peek
from replview.store.dsn import full_conninfo
from replview.store.models import Quarantine, Slot, SlotEvent, Source
from replview.store.quarantine import decide, open_quarantine, settled_quarantines, skip_word
from replview.store.read.changes.records import utc_text
from replview.store.slot_log import LogReader, read_log
from replview.store.write.access_record import Action, command_user, note
from replview.text.formats import bytes_words, count_words

_LOOK_SECONDS = 0.5
_LINES = 50
_CATALOG_SECONDS = 10.0


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
        "detail": line.detail,
    }
    return orjson.dumps(record).decode()


def add_peek(actions: Any) -> None:
    about = "what waits in an idle slot of the source, ours or not; it is not moved"
    parser = instance.add_slot_action(actions, "peek", about)
    parser.add_argument("--changes", type=int, default=1000, metavar="N", help="at most so many")
    parser.add_argument("--seconds", type=float, default=15.0, metavar="S", help="at most so many")
    parser.add_argument("--publication", nargs="+", action="extend", default=[], metavar="P",
                        help="for pgoutput (default: those its reader is known to use, else "
                        "all)")  # fmt: skip
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def look_into(command: instance.PlainCommand, options: dict[str, Any]) -> None:
    source = instance.find_source(options["source"])
    if options["changes"] < 1 or options["seconds"] <= 0:
        raise CommandError("--changes and --seconds are at least 1")
    conninfo = full_conninfo(source)
    with reading(conninfo, deadline_seconds=_CATALOG_SECONDS) as connection:
        place = read_place(connection)
    slot = _choose(place, source, options["name"])
    asked = _options(place, slot, source, options["publication"])
    cost = f"{place.cost(slot, options['seconds'])}."
    if options["format"] == "text":
        command.say(cost)
    elif not options["yes"]:
        raise CommandError(f"{cost} Answer with --yes: JSON leaves no place for a question")
    command.agree("Look into it?", options["yes"])
    note(Action.VIEWED_ROWS, subject=f"what waits in {slot.slot_name}", source_id=source.pk)
    result = peek(conninfo, slot.slot_name, plugin=slot.plugin or "", options=asked,
                  max_changes=options["changes"], max_seconds=options["seconds"])  # fmt: skip
    result = without_masked(result, source, ingest_alone=False)
    if options["format"] == "json":
        command.say(orjson.dumps(result, option=orjson.OPT_INDENT_2).decode())
        return
    command.say(*found_lines(Found(result), options["changes"], options["seconds"]))


def _choose(place: Place, source: Source, name: str) -> SlotFacts:
    slot = place.slot(name)
    if slot is None:
        known = ", ".join(item.slot_name for item in place.slots) or "none"
        raise CommandError(f"the server of {source} has no slot {name}; it has: {known}")
    if refusal := place.refusal(slot):
        raise CommandError(f"cannot look into {name}: {refusal}")
    return slot


def _options(
    place: Place, slot: SlotFacts, source: Source, publications: list[str]
) -> dict[str, object]:
    """What the plugin must be told."""
    if slot.plugin != "pgoutput":
        if publications:
            raise CommandError(f"--publication is for pgoutput; {slot.slot_name} uses "
                               f"{slot.plugin}")  # fmt: skip
        return {}
    if unknown := [name for name in publications if name not in place.publications]:
        raise CommandError(f"database {place.database} has no publication {unknown[0]}; it has: "
                           f"{', '.join(place.publications)}")  # fmt: skip
    ours = Slot.objects.filter(source=source, name=slot.slot_name).first()
    chosen = publications or place.used_by(slot, ours.publications if ours else [])
    return {"publications": chosen or place.publications}


def found_lines(found: Found, max_changes: int, max_seconds: float) -> list[str]:
    lines = [f"{found.title} {found.cause[:1].upper()}{found.cause[1:]}"]
    if bound := found.not_looked_at(max_changes, max_seconds):
        lines.append(bound)
    if found.tables:
        rows = [
            [str(table.get("table", "unknown"))]
            + [f"{count_words(number)} {letter}" for letter, number in counts_words(table)]
            for table in found.tables
        ]
        width = max(len(row) for row in rows)
        lines += ["", instance.table_of([row + [""] * (width - len(row)) for row in rows])]
    if found.waiting:
        heading = ["XID OR GID", "STATE", "COMMITTED", "WHO", "CHANGES", "SIZE", "TABLES"]
        lines += ["", instance.table_of([heading, *map(_waiting_row, found.waiting)])]
    if found.unknown:
        lines += ["", *(f"unknown: {sentence}" for sentence in found.unknown)]
    return lines


def _waiting_row(row: Any) -> list[str]:
    at = row.commit_time
    return [
        row.name,
        row.state,
        f"{at.astimezone():%Y-%m-%d %H:%M:%S}" if at else "unknown",
        row.who or "unknown",
        "unknown" if row.changes is None else count_words(row.changes),
        size_words(row.size_bytes).replace("\u00a0", " "),
        row.tables,
    ]


def add_quarantine(actions: Any) -> None:
    about = "what could not be stored: show it, try again, or skip it"
    parser = instance.add_slot_action(actions, "quarantine", about)
    decision = parser.add_mutually_exclusive_group()
    decision.add_argument("--retry", action="store_true", help="the cause was mended: receive it "
                          "once more")  # fmt: skip
    decision.add_argument("--skip", metavar="XID", help="leave this transaction out of the record, "
                          "for good, under your name")  # fmt: skip


def quarantine(command: instance.PlainCommand, options: dict[str, Any]) -> None:
    slot = instance.slot_of(options)
    row = open_quarantine(slot)
    if options["retry"] or options["skip"] is not None:
        if row is None:
            raise CommandError(f"nothing stops slot {slot}: there is nothing to decide")
        command.say(_decide(row, options["skip"]))
        return
    if row is None:
        command.say(f"nothing stops slot {slot}")
    else:
        command.say(*_lines_of(row))
    for old in settled_quarantines(slot):
        command.say(f"earlier: {_settled(old)}")


def _decide(row: Quarantine, typed: str | None) -> str:
    who = f"command line ({command_user()})"
    word = skip_word(row)
    if typed is not None and not word:
        raise CommandError("the message belongs to no transaction that could be skipped: mend the "
                           "cause and use --retry")  # fmt: skip
    if typed is not None and typed != word:
        raise CommandError(f"it is {thing(row)} that stops the slot, not {typed}: nothing was "
                           "decided")  # fmt: skip
    decision = Quarantine.Decision.RETRY if typed is None else Quarantine.Decision.SKIP
    if not decide(row.pk, decision, who):
        row.refresh_from_db(fields=["decision", "decided_by"])
        by = row.decided_by or "somebody"
        raise CommandError(f"{by} has decided already: {row.decision or 'settled'}")
    note(Action.CHANGED_SLOT, subject=f"quarantine of {row.slot}: {decision}",
         source_id=row.slot.source_id, details={"quarantine": row.pk})  # fmt: skip
    if typed is None:
        return "the receiver tries again within a second or two"
    return f"{thing(row)} will never be in this record; the gap is recorded under the name of {who}"


def _lines_of(row: Quarantine) -> list[str]:
    lines = [
        f"stopped: {row.cause}",
        f"  found    {row.found_at.astimezone():%Y-%m-%d %H:%M:%S}",
        f"  LSN      {_or_unknown(row.lsn)}",
        f"  table    {row.relation or 'none named'}",
        f"  message  {tag_words(row.tag)}, {bytes_words(row.raw_bytes)}",
        f"  xid      {row.xid if row.xid is not None else 'belongs to none'}",
        f"  commit   {_or_unknown(row.final_lsn)}",
    ]
    if row.gid:
        lines.insert(-1, f"  gid      {row.gid}")
    if row.decision:
        what = f"skip {thing(row)}" if row.decision == Quarantine.Decision.SKIP else "try again"
        return [*lines, f"{row.decided_by} decided to {what}; the receiver has not done so yet"]
    lines += [f"  remedy   {row.remedy}", "then: --retry"]
    if word := skip_word(row):
        lines.append(f"or:   --skip {word}  (its changes will never be in this record)")
    return lines


def _settled(row: Quarantine) -> str:
    done = {"skip": "skipped", "retry": "tried again"}.get(row.decision, "settled")
    what = f"{thing(row)} " if row.xid is not None or row.lsn is not None else ""
    at = f"{row.settled_at.astimezone():%Y-%m-%d %H:%M:%S}" if row.settled_at else "unknown"
    return f"{at}  {what}{done} by {row.decided_by or 'nobody named'}: {row.cause}"


def _or_unknown(lsn: object) -> str:
    return "unknown" if lsn is None else str(lsn)
