"""``replview doctor DSN``: list everything a source lacks for replication, with the remedy."""

import json
import sys
from argparse import ArgumentParser
from typing import Any

from replview.catalog.doctor import examine
from replview.catalog.doctor_checks import Finding, Grade, blocks
from replview.management.commands.up import check_store
from replview.management.instance import PlainCommand, conninfo_of
from replview.runtime.machine import StackProblem
from replview.store.connecting import store_conninfo
from replview.store.identity import store_system_identifier


class Command(PlainCommand):
    """The command that examines a source, and the store if there is one."""

    help = (
        "Check whether a database can be replicated. The command lists what is missing, each with "
        "the SQL or setting that fixes it, and checks the store if there is one. It opens a real "
        "replication connection and changes nothing."
    )
    examples = (
        "replview doctor 'host=db.example dbname=shop user=replview'",
        "replview doctor shop --format json",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the DSN and the options of ``doctor``."""
        dsn = "a libpq connection string, service=NAME, env:VARIABLE, or a source's name"
        parser.add_argument("dsn", metavar="DSN", help=dsn)
        parser.add_argument("--format", choices=["text", "json"], default="text")
        self.add_data(parser)

    def handle(self, **options: Any) -> None:
        """Examine the source and print the findings; exit with 1 if any prevents replication."""
        store = store_system_identifier()
        findings = examine(conninfo_of(options["dsn"]), store_system_identifier=store)
        try:
            if store is not None:
                check_store(store_conninfo())
        except StackProblem as problem:
            findings.append(Finding(Grade.PROBLEM, "store", problem.cause, problem.remedy))
        if options["format"] == "json":
            self.say(json.dumps([finding.as_json() for finding in findings], indent=2))
        else:
            self.say(*lines_of(findings))
        if blocks(findings):
            sys.exit(1)


def lines_of(findings: list[Finding]) -> list[str]:
    """Format findings, one line each, and a summary.

    A remedy follows its finding and is not wrapped, so that it can be copied.
    """
    lines = []
    for finding in findings:
        lines.append(f"{finding.grade:<8} {finding.message}")
        if finding.remedy:
            lines += [
                f"{'':8} → {part}" if number == 0 else f"{'':10} {part}"
                for number, part in enumerate(finding.remedy.split("; "))
            ]
    counts = {grade: sum(finding.grade is grade for finding in findings) for grade in Grade}
    if counts[Grade.PROBLEM]:
        return [*lines, f"\n{counts[Grade.PROBLEM]} to fix before this source can be replicated"]
    warnings = f"; {counts[Grade.WARNING]} warnings" if counts[Grade.WARNING] else ""
    unknown = any(finding.code == "plugins_unknown" for finding in findings)
    verdict = "whether it can be replicated is unknown" if unknown else "can be replicated"
    return [*lines, f"\n{verdict}{warnings}"]
