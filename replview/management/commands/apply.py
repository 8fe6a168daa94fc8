"""``replview apply fleet.toml``: compare a file with the store, show the plan, carry it out."""

import json
import sys
import threading
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.core.management.base import CommandError

from replview.catalog.problems import SourceProblem
from replview.management.fleet.faults import FleetFaults
from replview.management.fleet.planning import plan_fleet, side_by_side
from replview.management.fleet.plans import KEYS, FleetPlan, Item, Verdict
from replview.management.fleet.reading import read_fleet
from replview.management.fleet.source_planning import trouble_of
from replview.management.instance import InstanceCommand
from replview.store.write.access_record import note
from replview.text.problem import Problem
from replview.ui.managed import EXPECTED

#: Exit statuses: something could not be done; something would change (``--check``).
_EXIT_FAILED, _EXIT_DIFFERS = 1, 3
_SIGNS = {Verdict.ADDED: "+", Verdict.CHANGED: "~", Verdict.REMOVED: "-", Verdict.REFUSED: "!",
          Verdict.UNREACHABLE: "!"}  # fmt: skip
_VERDICT_WORDS = {
    Verdict.ADDED: "to add",
    Verdict.CHANGED: "to change",
    Verdict.REMOVED: "to remove",
    Verdict.UNCHANGED: "unchanged",
    Verdict.LEFT: "not in the file (left alone; --prune removes them)",
    Verdict.REFUSED: "refused",
    Verdict.UNREACHABLE: "unreachable",
}
_SOURCE_MISSING = "not_here"
#: Prints a line about an item; the arguments are the item's name and the line.
PrintItem = Callable[[str, str], None]


class Command(InstanceCommand):
    """The command that plans and applies a fleet file."""

    help = (
        "Make sources, slots and mask rules match a fleet file. The plan is shown first, with "
        "every statement that would run on each source. Applying the same file again changes "
        "nothing."
    )
    examples = ("replview apply fleet.toml --check", "replview apply fleet.toml --yes")

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the file and the options of ``apply``."""
        parser.add_argument(
            "file", metavar="FLEET.TOML", type=Path, help="the fleet file; '-' reads standard input"
        )
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        parser.add_argument("--check", "--dry-run", action="store_true", dest="check",
                            help="only show the plan; exit with 3 if something would change, with "
                            "1 "
                            "if something cannot be done")  # fmt: skip
        parser.add_argument("--prune", action="store_true", help="remove sources, slots and mask "
                            "rules that the file does not name, with their records")  # fmt: skip
        parser.add_argument("--json", action="store_true", help="print the plan and its result "
                            "as JSON")  # fmt: skip
        self.add_trust_host(parser)
        self.add_data(parser)

    def handle(self, **options: Any) -> None:
        """Plan the file, show the plan, and carry it out if it was agreed to."""
        try:
            fleet = read_fleet(options["file"])
        except FleetFaults as error:
            faults = "\n  ".join(map(str, error.faults))
            raise CommandError(
                f"{options['file']} cannot be applied; nothing was changed:\n  {faults}"
            ) from None
        path = Path("stdin") if str(options["file"]) == "-" else options["file"]
        stop = threading.Event()
        try:
            plan = plan_fleet(fleet, prune=options["prune"], stop=stop)
            if not options["json"]:
                self.say(*lines_of(plan))
            applied = plan.changes_something and not options["check"]
            if applied:
                self._carry_out(plan, path, options, stop)
        except KeyboardInterrupt:
            stop.set()
            raise
        if options["json"]:
            self.say(json.dumps(json_of(plan, path, applied=applied), indent=2))
        if plan.troubled:
            sys.exit(_EXIT_FAILED)
        if options["check"] and plan.changes_something:
            sys.exit(_EXIT_DIFFERS)

    def _carry_out(
        self, plan: FleetPlan, path: Path, options: dict[str, Any], stop: threading.Event
    ) -> None:
        self.agree("Apply this plan?", options["yes"])
        saying = threading.Lock()

        def tell(name: str, line: str) -> None:
            if not options["json"]:
                with saying:
                    self.say(f"{name}: {line}")

        apply_plan(plan, tell, stop, path)
        if not options["json"]:
            self.say(*done_lines(plan))


def apply_plan(plan: FleetPlan, print_item: PrintItem, stop: threading.Event, path: Path) -> None:
    """Carry out sources, masks, grants, then slots, so that no slot starts before its masks.

    An item that fails gets a ``trouble``, and the remaining items continue.
    """

    def carry_out(items: list[Item]) -> None:
        for item in items:
            if item.acts and not stop.is_set():
                _carry_out(item, print_item)

    side_by_side(carry_out, [_items_of_kind(group, "source") for group in plan.groups], stop)
    for group in plan.groups:
        if any(item.kind == "source" and item.trouble for item in group):
            _leave_out(group, "its source failed")
    # Masks come after sources: a rule may name a source that was added just now.
    masks = [item for item in plan.items if item.kind == "mask"]
    carry_out(masks)
    if any(item.trouble and item.trouble.code != _SOURCE_MISSING for item in masks):
        _leave_out([item for item in plan.items if item.kind == "slot"], "a mask rule failed")
    carry_out([item for item in plan.items if item.kind == "grant"])
    side_by_side(carry_out, [_items_of_kind(group, "slot") for group in plan.groups], stop)
    done_counts = Counter(
        str(item.verdict) for item in plan.items if item.acts and not item.trouble
    )
    note("applied_fleet", subject=path.name, details=dict(done_counts))


def _items_of_kind(group: list[Item], kind: str) -> list[Item]:
    return [item for item in group if item.kind == kind]


def _carry_out(item: Item, print_item: PrintItem) -> None:
    try:
        for act in item.acts:
            act(lambda line: print_item(item.name, line))
    except EXPECTED as error:
        item.trouble = trouble_of(error).with_places(KEYS)
    except Problem as problem:
        item.trouble = SourceProblem("refused", str(problem), "Correct it in the file")
    except ObjectDoesNotExist:
        # The source was not added because its server was not reached, or it is being removed.
        cause = "not tried, since its source is not here"
        item.trouble = SourceProblem(_SOURCE_MISSING, cause, "Apply again")
    except Exception as error:
        # One failing item must not stop the others. The error's text may hold values.
        item.trouble = SourceProblem("failed", f"it failed ({type(error).__name__})", "Apply again")
    print_item(item.name, f"failed: {item.trouble}" if item.trouble else str(item.verdict))


def _leave_out(items: list[Item], reason: str) -> None:
    """Mark items as not tried, because something they depend on failed."""
    for item in items:
        if item.acts and item.trouble is None:
            item.trouble = SourceProblem("not_tried", f"not tried, since {reason}", "Apply again")
            item.acts = []


def lines_of(plan: FleetPlan) -> Iterator[str]:
    """Yield the lines of items that differ, with their statements, then the counts."""
    for group in plan.groups:
        yield from (line for item in group for line in _lines(item))
    counts = [
        f"{count} {_VERDICT_WORDS[verdict]}"
        for verdict in _VERDICT_WORDS
        if (count := plan.count(verdict))
    ]
    yield "; ".join(counts) or "the file declares nothing"


def done_lines(plan: FleetPlan) -> Iterator[str]:
    """Yield, after the plan was carried out, what was not done and why, then the counts."""
    for item in plan.troubled:
        yield f"! {item.kind} {item.name}: {item.trouble}"
    done_count = sum(bool(item.acts) and item.trouble is None for item in plan.items)
    yield f"{done_count} done" + (f", {len(plan.troubled)} not done" if plan.troubled else "")


def json_of(plan: FleetPlan, path: Path, *, applied: bool) -> dict[str, object]:
    """Return the plan and its results as an object for JSON."""
    return {
        "file": str(path),
        "applied": applied,
        "changes": plan.changes_something,
        "counts": {str(verdict): plan.count(verdict) for verdict in Verdict},
        "items": [_facts(item) for item in plan.items],
    }


def _lines(item: Item) -> Iterator[str]:
    sign = _SIGNS.get(item.verdict)
    if sign is None:
        return
    yield f"{sign} {item.kind} {item.name}: {item.verdict}"
    if item.trouble is not None:
        yield f"      {item.trouble}"
        return
    for change in item.changes:
        yield f"      {change.what}: {change.was} → {change.now}"
    for statement in item.statements:
        yield f"    {statement.sql};"
        yield f"        needs: {statement.needs}"
        yield f"        costs: {statement.costs}"
    for sentence in item.notes:
        yield f"      note: {sentence}"


def _facts(item: Item) -> dict[str, object]:
    trouble = item.trouble
    return {
        "kind": item.kind,
        "name": item.name,
        "verdict": str(item.verdict),
        "changes": [asdict(change) for change in item.changes],
        "statements": [statement.as_json() for statement in item.statements],
        "notes": item.notes,
        "problem": trouble
        and {"code": trouble.code, "cause": trouble.cause, "remedy": trouble.remedy},
    }
