"""``replview slot peek``: show what waits in an idle slot, without advancing the slot."""

from typing import Any

import orjson
from django.core.management.base import CommandError
from django.utils.text import capfirst

from replview.catalog.connections import reading
from replview.catalog.peekable import PeekableServer, read_place
from replview.catalog.slots import SlotFacts
from replview.features.peeks.job import without_masked
from replview.features.peeks.text import PeekResult, counts_words, seen_sizes
from replview.management import instance
from replview.receiver.peek import peek
from replview.store.dsn import full_conninfo
from replview.store.models import Slot, Source
from replview.store.write.access_record import Action, note
from replview.text.formats import bytes_words, count_words

_CATALOG_SECONDS = 10.0


def add_peek(actions: Any) -> None:
    """Add the parser of ``slot peek``."""
    help_text = "show the changes waiting in any idle slot of the source, without advancing it"
    parser = instance.add_slot_action(actions, "peek", help_text)
    parser.add_argument("--changes", type=int, default=1000, metavar="N",
                        help="read at most N changes (default: 1000)")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=15.0, metavar="S",
                        help="read for at most S seconds (default: 15)")  # fmt: skip
    parser.add_argument("--publication", nargs="+", action="extend", default=[], metavar="P",
                        help="for pgoutput (default: those its consumer is known to use, else "
                        "all)")  # fmt: skip
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def look_into(command: instance.PlainCommand, options: dict[str, Any]) -> None:
    """Peek into the slot after asking, and print what waits there."""
    source = instance.find_source(options["source"])
    if options["changes"] < 1 or options["seconds"] <= 0:
        raise CommandError("--changes and --seconds are at least 1")
    conninfo = full_conninfo(source)
    with reading(conninfo, deadline_seconds=_CATALOG_SECONDS) as connection:
        server = read_place(connection)
    slot = _choose_slot(server, source, options["name"])
    plugin_options = _plugin_options(server, slot, source, options["publication"])
    cost = f"{server.cost(slot, options['seconds'])}."
    if options["format"] == "text":
        command.say(cost)
    elif not options["yes"]:
        raise CommandError(f"{cost} Give --yes: with --format json nothing is asked")
    command.agree("Peek into it?", options["yes"])
    note(Action.VIEWED_ROWS, subject=f"changes waiting in {slot.slot_name}", source_id=source.pk)
    result = peek(conninfo, slot.slot_name, plugin=slot.plugin or "", options=plugin_options,
                  max_changes=options["changes"], max_seconds=options["seconds"])  # fmt: skip
    result = dict(seen_sizes(without_masked(result, source, ingest_alone=False)))
    if options["format"] == "json":
        command.say(orjson.dumps(result, option=orjson.OPT_INDENT_2).decode())
        return
    command.say(*found_lines(PeekResult(result), options["changes"], options["seconds"]))


def _choose_slot(server: PeekableServer, source: Source, name: str) -> SlotFacts:
    slot = server.slot(name)
    if slot is None:
        slot_names = ", ".join(other.slot_name for other in server.slots) or "none"
        raise CommandError(f"the server of {source} has no slot {name}; it has: {slot_names}")
    if refusal := server.refusal(slot):
        raise CommandError(f"slot {name} cannot be peeked: {refusal}")
    return slot


def _plugin_options(
    server: PeekableServer, slot: SlotFacts, source: Source, publications: list[str]
) -> dict[str, object]:
    """Return the options of the slot's output plugin for the peek."""
    if slot.plugin != "pgoutput":
        if publications:
            raise CommandError(f"--publication is for pgoutput; {slot.slot_name} uses "
                               f"{slot.plugin}")  # fmt: skip
        return {}
    if unknown := [name for name in publications if name not in server.publications]:
        raise CommandError(f"database {server.database} has no publication {unknown[0]}; it has: "
                           f"{', '.join(server.publications)}")  # fmt: skip
    own_slot = Slot.objects.filter(source=source, name=slot.slot_name).first()
    chosen = publications or server.used_by(slot, own_slot.publications if own_slot else [])
    return {"publications": chosen or server.publications}


def found_lines(result: PeekResult, max_changes: int, max_seconds: float) -> list[str]:
    """Format a peek's result as lines for a terminal."""
    lines = [f"{result.title} {capfirst(result.cause)}"]
    if bound := result.not_looked_at(max_changes, max_seconds):
        lines.append(bound)
    if result.tables:
        rows = [
            [str(table.get("table", "unknown"))]
            + [f"{count_words(number)} {letter}" for letter, number in counts_words(table)]
            for table in result.tables
        ]
        width = max(len(row) for row in rows)
        lines += ["", instance.table_of([row + [""] * (width - len(row)) for row in rows])]
    if result.waiting:
        heading = ["XID OR GID", "STATE", "COMMITTED", "WHO", "CHANGES", "SIZE", "TABLES"]
        lines += ["", instance.table_of([heading, *map(_waiting_row, result.waiting)])]
    if result.unknown:
        lines += ["", *(f"unknown: {sentence}" for sentence in result.unknown)]
    return lines


def _waiting_row(row: Any) -> list[str]:
    committed_at = row.commit_time
    return [
        row.name,
        row.state,
        f"{committed_at.astimezone():%Y-%m-%d %H:%M:%S}" if committed_at else "unknown",
        row.who or "unknown",
        "unknown" if row.changes is None else count_words(row.changes),
        "unknown" if row.size_bytes is None else bytes_words(row.size_bytes),
        row.tables,
    ]
