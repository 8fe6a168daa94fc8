"""``replview actor install|remove|status DSN``: who writes, for applications as they are."""

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from replview.management.output import actor_stamp
from replview.management.output.instance import PlainCommand

_DSN = "a libpq connection string, service=NAME, env:VARIABLE, or a source's name"


class Command(PlainCommand):
    """The trigger that stamps writing transactions: install, remove, status."""

    help = (
        "A trigger that stamps each writing transaction with its session user, application name "
        "and client address, for applications that cannot say who acts. Shows every statement, "
        "with the rights it needs and the locks it takes, before anything is run."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The actions and their options."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        install = actions.add_parser("install", help="put the trigger on tables")
        install.add_argument("dsn", metavar="DSN", help=_DSN)
        install.add_argument("--table", nargs="+", action="extend", default=[],
                             metavar="TABLE", help="these, and their partitions")  # fmt: skip
        install.add_argument("--all-tables", action="store_true", help="on every table there is")
        install.add_argument("--revoke-emit", action="store_true", help="let no role but the "
                             "trigger's write messages, unless it is granted: REVOKE EXECUTE ON "
                             "pg_logical_emit_message FROM PUBLIC")  # fmt: skip
        remove = actions.add_parser("remove", help="drop all that install made")
        remove.add_argument("dsn", metavar="DSN", help=_DSN)
        for action in (install, remove):
            action.add_argument("--dry-run", action="store_true", help="show, and do nothing")
            action.add_argument("--yes", action="store_true", help="do not ask")
            self.add_data(action)
        status = actions.add_parser("status", help="which tables are stamped, and what a stamp "
                                    "is worth here")  # fmt: skip
        status.add_argument("dsn", metavar="DSN", help=_DSN)
        status.add_argument("--format", choices=["text", "json"], default="text")
        self.add_data(status)

    def handle(self, **options: Any) -> None:
        """Run the action."""
        conninfo = actor_stamp.conninfo_of(options["dsn"])
        getattr(self, f"_{options['action']}")(conninfo, options)

    def _install(self, conninfo: str, options: dict[str, Any]) -> None:
        if bool(options["table"]) == options["all_tables"]:
            raise CommandError("say which tables: --table SCHEMA.TABLE …, or --all-tables")
        plan = actor_stamp.install_plan(
            conninfo, options["table"], all_tables=options["all_tables"],
            revoke=options["revoke_emit"],
        )  # fmt: skip
        if not plan.steps:
            self.say("nothing to do: these tables are stamped")
            return
        if not self._agreed(plan, options):
            return
        left = actor_stamp.carry(self, conninfo, plan, taking_back=True)
        actor_stamp.note_act(options["dsn"], "actor install")
        if left:
            tables = " ".join(step.name for step in left)
            self.say(f"in use, and not stamped: {tables}. Run later: replview actor install "
                     f"{_shown(options['dsn'])} --table {tables}")  # fmt: skip
            sys.exit(1)
        self.say("installed: each transaction that writes to these tables is stamped from now on")

    def _remove(self, conninfo: str, options: dict[str, Any]) -> None:
        plan = actor_stamp.remove_plan(conninfo)
        if not plan.steps:
            self.say("nothing to do: nothing of the stamp is there")
            return
        if not self._agreed(plan, options):
            return
        left = actor_stamp.carry(self, conninfo, plan, taking_back=False)
        actor_stamp.note_act(options["dsn"], "actor remove")
        if left:
            tables = " ".join(step.name for step in left)
            self.say(f"in use, and still stamped: {tables}. The function stays for them. Run later "
                     f"again: replview actor remove {_shown(options['dsn'])}")  # fmt: skip
            sys.exit(1)
        self.say("removed: nothing of the stamp is left on this database")

    def _status(self, conninfo: str, options: dict[str, Any]) -> None:
        status = actor_stamp.read_status(conninfo)
        if options["format"] == "json":
            self.say(json.dumps(status.as_json(), indent=2))
            return
        for line in status.lines():
            self.say(line)

    def _agreed(self, plan: actor_stamp.StampPlan, options: dict[str, Any]) -> bool:
        """Show the plan and ask; False for a dry run."""
        self.say("this will run:")
        for line in actor_stamp.lines_of(plan):
            self.say(line)
        if options["dry_run"]:
            self.say("nothing was done (--dry-run)")
            return False
        if not self.confirm("Run this?", options["yes"]):
            raise CommandError("nothing was done")
        return True


def _shown(dsn: str) -> str:
    """What was typed, unless it may hold a password."""
    return "DSN" if "=" in dsn or "//" in dsn else dsn
