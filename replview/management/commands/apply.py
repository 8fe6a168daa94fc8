"""``replview apply fleet.toml``: sources, slots and mask rules as one file declares them."""

import json
import sys
import threading
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from replview.management.fleet.applying import apply_plan
from replview.management.fleet.declared import Fleet
from replview.management.fleet.faults import FleetFaults
from replview.management.fleet.output import done_lines, json_of, lines_of
from replview.management.fleet.planning import plan_fleet
from replview.management.fleet.plans import Plan
from replview.management.fleet.reading import read_fleet
from replview.management.output.instance import InstanceCommand

#: Exit status: something could not be done; something would change (``--check``).
_TROUBLED, _DIFFERS = 1, 3


class Command(InstanceCommand):
    """Show what differs from the file, ask, and make it so; again and again with no effect."""

    help = (
        "Make sources, slots and mask rules what a fleet file declares. The plan is shown first, "
        "with every statement that would run on each source. Applied again, nothing changes."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The file, and how far to go."""
        parser.add_argument("file", metavar="FLEET.TOML", type=Path, help="- reads standard input")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument("--check", "--dry-run", action="store_true", dest="check",
                            help="only show the plan; exit status 3 where something would change, "
                            "1 where something cannot be done")  # fmt: skip
        parser.add_argument("--prune", action="store_true", help="remove sources, slots and mask "
                            "rules that the file does not name, with their records")  # fmt: skip
        parser.add_argument("--json", action="store_true", help="the plan, and what became of it, "
                            "as JSON")  # fmt: skip
        self.add_data(parser)

    def handle(self, **options: Any) -> None:
        """Read, plan, show, ask, apply."""
        fleet = _read(options["file"])
        path = Path("stdin") if str(options["file"]) == "-" else options["file"]
        stop = threading.Event()
        try:
            plan = plan_fleet(fleet, prune=options["prune"], stop=stop)
            if not options["json"]:
                for line in lines_of(plan):
                    self.say(line)
            applied = plan.changes_something and not options["check"]
            if applied:
                self._carry_out(plan, path, options, stop)
        except KeyboardInterrupt:
            stop.set()
            raise
        if options["json"]:
            self.say(json.dumps(json_of(plan, path, applied=applied), indent=2))
        if plan.troubled:
            sys.exit(_TROUBLED)
        if options["check"] and plan.changes_something:
            sys.exit(_DIFFERS)

    def _carry_out(
        self, plan: Plan, path: Path, options: dict[str, Any], stop: threading.Event
    ) -> None:
        if not self.confirm("Carry this out?", options["yes"]):
            raise CommandError("nothing was done")
        saying = threading.Lock()

        def tell(name: str, line: str) -> None:
            if not options["json"]:
                with saying:
                    self.say(f"{name}: {line}")

        apply_plan(plan, tell, stop, path)
        if not options["json"]:
            for line in done_lines(plan):
                self.say(line)


def _read(path: Path) -> Fleet:
    """Raises ``CommandError`` with everything that is wrong in the file."""
    try:
        return read_fleet(path)
    except FleetFaults as error:
        faults = "\n  ".join(str(fault) for fault in error.faults)
        raise CommandError(f"{path} cannot be applied; nothing was done:\n  {faults}") from None
