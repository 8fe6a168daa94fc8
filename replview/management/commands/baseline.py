"""``replview baseline SOURCE/SLOT TABLE …``: store the rows that tables have now."""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from replview.acts.publications import look_at_publications
from replview.features.baselines.text import BaselineRow, rows_of
from replview.jobs import baselines
from replview.management.instance import BY, InstanceCommand, find_slot, table_of
from replview.store.models import Baseline, Slot
from replview.store.read.mask_rules import table_readings
from replview.text.formats import plural
from replview.text.parsing import is_chosen, plain_name, read_table_word
from replview.ui.sentence import BASELINE_COST

_TURN_SECONDS = 0.5


class Command(InstanceCommand):
    """The command that takes, lists and cancels baselines."""

    help = (
        "Store the present rows of tables. The first recorded change of each row then shows its "
        "values before the change. Without a table, the command lists the slot's baselines."
    )
    examples = (
        "replview baseline shop/replview public.orders --wait",
        "replview baseline shop/replview",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the slot, the tables and the options of ``baseline``."""
        parser.add_argument("slot", metavar="SOURCE/SLOT")
        parser.add_argument("tables", nargs="*", metavar="SCHEMA.TABLE")
        parser.add_argument("--all", action="store_true", help="every published table of the slot")
        parser.add_argument("--rate", type=int, metavar="ROWS_PER_SECOND", help="read at most "
                            "this fast (default: unlimited)")  # fmt: skip
        parser.add_argument("--wait", "--follow", action="store_true", help="show progress until "
                            "they are done")  # fmt: skip
        parser.add_argument("--cancel", action="store_true", help="cancel baselines that wait or "
                            "run (of these tables, or all)")  # fmt: skip
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        self.add_data(parser)

    def handle(self, **options: Any) -> None:
        """Request, list or cancel baselines, as the options say."""
        slot = find_slot(options["slot"])
        if options["rate"] is not None and options["rate"] < 1:
            raise CommandError("--rate is at least 1 row a second")
        if options["cancel"]:
            self._cancel(slot, options["tables"])
            return
        if not options["tables"] and not options["all"]:
            self._list(slot)
            return
        tables = tables_for(slot, options["tables"], everything=options["all"])
        self.say(*cost_lines(tables))
        self.agree(f"Take {plural(len(tables), 'baseline')}?", options["yes"])
        asked = [
            baselines.request(slot, schema, table, by=BY, rows_per_second=options["rate"]).pk
            for schema, table in tables
        ]
        if options["wait"]:
            self._wait(asked)
        else:
            self.say("a worker begins within a second or two; "
                     f"'replview baseline {slot}' shows how far it is")  # fmt: skip

    def _list(self, slot: Slot) -> None:
        rows = rows_of(Baseline.objects.filter(slot=slot).order_by("id"))
        if not rows:
            self.say(f"no baselines yet: replview baseline {slot} SCHEMA.TABLE")
            return
        lines = [["TABLE", "STATE", "ROWS", "RATE", "AS OF LSN", "PROBLEM"]]
        for row in rows:
            found, unknown = row.baseline, "" if row.baseline.state == "requested" else "unknown"
            lines.append([row.name, found.state, row.rows, row.rate or unknown,
                          str(found.lsn or unknown), found.problem_cause])  # fmt: skip
        self.say(table_of(lines))

    def _cancel(self, slot: Slot, names: list[str]) -> None:
        found, words = baselines.rows, [read_table_word(name) for name in names]
        gone = 0
        for row in found.rows(found.unended, slot=slot).select_related("slot__source"):
            meant = not names or is_chosen(words, row.schema, row.table)
            if meant and found.cancel(row.pk):
                baselines.note_act(row, "cancelled")
                gone += 1
        self.say(f"{plural(gone, 'baseline')} cancelled; rows read so far are deleted")

    def _wait(self, asked: list[int]) -> None:
        """Wait until all requested baselines have ended, and print their progress and results."""
        left, failed = list(asked), 0
        last: dict[int, str] = {}
        while left:
            for found in Baseline.objects.filter(pk__in=left).order_by("id"):
                row = BaselineRow(found)
                line = f"{row.name}: {row.progress}"
                if not found.waits:
                    left.remove(found.pk)
                    failed += row.again
                    line = _ended(row)
                if last.get(found.pk) != line:
                    last[found.pk] = line
                    self.say(line)
            if left:
                time.sleep(_TURN_SECONDS)
        if failed:
            raise CommandError(f"{failed} of {plural(len(asked), 'baseline')} failed")


def tables_for(slot: Slot, names: list[str], *, everything: bool) -> list[tuple[str, str]]:
    """Return the published tables of these names. Raises ``CommandError`` for any other."""
    look_at_publications(slot.source)
    known = baselines.tables_of(slot)
    if everything:
        if not known:
            raise CommandError(
                f"no published table of {slot} is known: check that its source can be reached "
                "(replview source list) and that its publications have tables"
            )
        return [(table["schema"], table["table"]) for table in known]
    found: list[tuple[str, str]] = []
    for name in names:
        readings = table_readings(name) or [("public", plain_name(name))]
        meant = next(filter(None, (baselines.tables_named(slot, *each) for each in readings)), [])
        if not meant:
            near = ", ".join(f"{t['schema']}.{t['table']}" for t in known[:8]) or "unknown"
            raise CommandError(f"{name} is not published to {slot}; published: {near}")
        found += [one for one in meant if one not in found]
    return found


def cost_lines(tables: list[tuple[str, str]]) -> list[str]:
    """Format what baselines of these tables cost the source and which rights they need."""
    names = ", ".join(f"{schema}.{table}" for schema, table in tables[:8])
    more = f" and {len(tables) - 8} more" if len(tables) > 8 else ""
    return [f"a baseline of {names}{more}:", f"  costs: {BASELINE_COST}",
            "  needs: SELECT on the tables, and a replication connection"]  # fmt: skip


def _ended(row: BaselineRow) -> str:
    if row.baseline.state == Baseline.State.DONE:
        took = f" in {row.took}" if row.took else ""
        return f"{row.name}: {row.rows} rows as of {row.baseline.lsn}{took}"
    cause = row.baseline.problem_cause or "cancelled"
    remedy = f". {row.baseline.problem_remedy}" if row.baseline.problem_remedy else ""
    return f"{row.name}: {row.baseline.state}: {cause}{remedy}"
