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
from replview.text.formats import plural, some_of
from replview.text.parsing import is_chosen, plain_name, read_table_word
from replview.ui.sentence import BASELINE_COST

_POLL_SECONDS = 0.5


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
        requested_ids = [
            baselines.request(slot, schema, table, by=BY, rows_per_second=options["rate"]).pk
            for schema, table in tables
        ]
        if options["wait"]:
            self._wait(requested_ids)
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
            baseline, unknown = row.baseline, "" if row.baseline.state == "requested" else "unknown"
            lines.append([row.name, baseline.state, row.rows, row.rate or unknown,
                          str(baseline.lsn or unknown), baseline.problem_cause])  # fmt: skip
        self.say(table_of(lines))

    def _cancel(self, slot: Slot, names: list[str]) -> None:
        queue, table_words = baselines.rows, [read_table_word(name) for name in names]
        cancelled = 0
        for row in queue.rows(queue.unended, slot=slot).select_related("slot__source"):
            is_meant = not names or is_chosen(table_words, row.schema, row.table)
            if is_meant and queue.cancel(row.pk):
                baselines.note_act(row, "cancelled")
                cancelled += 1
        self.say(f"{plural(cancelled, 'baseline')} cancelled; rows read so far are deleted")

    def _wait(self, requested_ids: list[int]) -> None:
        """Wait until all requested baselines have ended, and print their progress and results."""
        waiting_ids, failed = list(requested_ids), 0
        last_lines: dict[int, str] = {}
        while waiting_ids:
            for baseline in Baseline.objects.filter(pk__in=waiting_ids).order_by("id"):
                row = BaselineRow(baseline)
                line = f"{row.name}: {row.progress}"
                if not baseline.waits:
                    waiting_ids.remove(baseline.pk)
                    failed += row.again
                    line = _result_line(row)
                if last_lines.get(baseline.pk) != line:
                    last_lines[baseline.pk] = line
                    self.say(line)
            if waiting_ids:
                time.sleep(_POLL_SECONDS)
        if failed:
            raise CommandError(f"{failed} of {plural(len(requested_ids), 'baseline')} failed")


def tables_for(slot: Slot, names: list[str], *, everything: bool) -> list[tuple[str, str]]:
    """Return the published tables of these names. Raises ``CommandError`` for any other."""
    look_at_publications(slot.source)
    published_tables = baselines.tables_of(slot)
    if everything:
        if not published_tables:
            raise CommandError(
                f"no published table of {slot} is known: check that its source can be reached "
                "(replview source list) and that its publications have tables"
            )
        return [(table["schema"], table["table"]) for table in published_tables]
    tables: list[tuple[str, str]] = []
    for name in names:
        readings = table_readings(name) or [("public", plain_name(name))]
        matches = next(
            filter(None, (baselines.tables_named(slot, *reading) for reading in readings)), []
        )
        if not matches:
            examples = (
                ", ".join(f"{t['schema']}.{t['table']}" for t in published_tables[:8]) or "unknown"
            )
            raise CommandError(f"{name} is not published to {slot}; published: {examples}")
        tables += [match for match in matches if match not in tables]
    return tables


def cost_lines(tables: list[tuple[str, str]]) -> list[str]:
    """Format what baselines of these tables cost the source and which rights they need."""
    names = some_of([f"{schema}.{table}" for schema, table in tables], 8)
    return [f"a baseline of {names}:", f"  costs: {BASELINE_COST}",
            "  needs: SELECT on the tables, and a replication connection"]  # fmt: skip


def _result_line(row: BaselineRow) -> str:
    if row.baseline.state == Baseline.State.DONE:
        duration = f" in {row.took}" if row.took else ""
        return f"{row.name}: {row.rows} rows as of {row.baseline.lsn}{duration}"
    cause = row.baseline.problem_cause or "cancelled"
    remedy = f". {row.baseline.problem_remedy}" if row.baseline.problem_remedy else ""
    return f"{row.name}: {row.baseline.state}: {cause}{remedy}"
