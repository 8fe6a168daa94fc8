"""``replview actor install|remove|status DSN``: the trigger that stamps transactions."""

import json
import sys
from contextlib import AbstractContextManager
from itertools import groupby
from typing import Any

from django.core.management.base import CommandError

from replview.acts.noting import note_source
from replview.catalog.connections import Connection, reading
from replview.catalog.plan.actor_stamp import read_stamp
from replview.catalog.plan.stamp_plan import StampPlan, plan_install, plan_remove
from replview.catalog.plan.stamp_run import carry_stamp
from replview.catalog.tables import read_tables
from replview.management.instance import BY, OPTIONS, Actions, conninfo_of
from replview.store.identity import store_system_identifier
from replview.store.models import Source
from replview.store.write.access_record import Action, note
from replview.text.formats import some_of
from replview.text.problem import with_place

_DSN = "a libpq connection string, service=NAME, env:VARIABLE, or a source's name"
_DEADLINE_SECONDS = 60.0


class Command(Actions):
    """The command that installs, removes and inspects the stamping trigger."""

    help = (
        "Install a trigger that records who made each change. It is for applications that cannot "
        "name their user: it stamps each writing transaction with the session user, application "
        "name and client address. Every statement is shown first, with the rights it needs and "
        "the locks it takes."
    )
    examples = (
        "replview actor install shop --table public.orders --dry-run",
        "replview actor status shop",
    )

    def add_actions(self, actions: Any) -> None:
        """Add the parsers of ``install``, ``remove`` and ``status``."""
        install = actions.add_parser("install", help="create the trigger on tables")
        install.add_argument("dsn", metavar="DSN", help=_DSN)
        install.add_argument(
            "--table",
            nargs="+",
            action="extend",
            default=[],
            metavar="TABLE",
            help="on these tables and their partitions",
        )
        install.add_argument("--all-tables", action="store_true", help="on every table")
        install.add_argument("--revoke-emit", action="store_true", help="let only the trigger's "
                             "role and roles with a grant write messages: REVOKE EXECUTE ON "
                             "pg_logical_emit_message FROM PUBLIC")  # fmt: skip
        remove = actions.add_parser("remove", help="drop everything that install created")
        remove.add_argument("dsn", metavar="DSN", help=_DSN)
        for action in (install, remove):
            action.add_argument(
                "--dry-run", action="store_true", help="show the statements, and run none"
            )
            action.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        status = actions.add_parser("status", help="show which tables are stamped, and "
                                    "whether roles can forge stamps")  # fmt: skip
        status.add_argument("dsn", metavar="DSN", help=_DSN)
        status.add_argument("--format", choices=["text", "json"], default="text")

    def handle(self, **options: Any) -> None:
        """Run the action on the database that the DSN or source name means."""
        super().handle(**options, conninfo=conninfo_of(options["dsn"]))

    def _install(self, options: dict[str, Any]) -> None:
        if bool(options["table"]) == options["all_tables"]:
            raise CommandError("name the tables: --table SCHEMA.TABLE …, or --all-tables")
        with _reading(options) as connection:
            plan = plan_install(connection, options["table"], all_tables=options["all_tables"],
                                revoke=options["revoke_emit"])  # fmt: skip
        if not plan.statements:
            self.say("nothing to do: these tables are stamped already")
        elif self._agreed(plan, options):
            if skipped := self._carry_out(plan, options):
                self.say(
                    f"not stamped, because they are locked: {skipped}. Run later: replview actor "
                    f"install {_dsn_text(options['dsn'])} --table {skipped}"
                )
                sys.exit(1)
            self.say(
                "installed: each transaction that writes to these tables is stamped from now on"
            )

    def _remove(self, options: dict[str, Any]) -> None:
        with _reading(options) as connection:
            plan = plan_remove(connection)
        if not plan.statements:
            self.say("nothing to do: the trigger is not installed")
        elif self._agreed(plan, options):
            if skipped := self._carry_out(plan, options):
                self.say(f"still stamped, because they are locked: {skipped}. The function stays "
                         "for them. Run later: replview actor remove "
                         f"{_dsn_text(options['dsn'])}")  # fmt: skip
                sys.exit(1)
            self.say("removed: the trigger and its function are dropped")

    def _carry_out(self, plan: StampPlan, options: dict[str, Any]) -> str:
        """Run the plan and return the tables that it could not change.

        A stopped installation is undone; a stopped removal can be continued.
        """
        taking_back = options["action"] == "install"
        carried = carry_stamp(options["conninfo"], plan, self.say, taking_back=taking_back)
        note_act(options["dsn"], f"actor {options['action']}")
        return " ".join(step.name for step in carried.left)

    def _status(self, options: dict[str, Any]) -> None:
        with _reading(options) as connection:
            stamp = read_stamp(connection)
            names = [str(table) for table in read_tables(connection)]
        stamped_names = {str(table) for table in stamp.tables}
        facts = {
            "installed": stamp.owner is not None,
            "owner": stamp.owner,
            "current": stamp.current,
            "stamped": [str(table) for table in stamp.tables if not table.disabled],
            "disabled": [str(table) for table in stamp.tables if table.disabled],
            "unstamped": [name for name in names if name not in stamped_names],
            "public_may_emit": stamp.public_may_emit,
        }
        if options["format"] == "json":
            self.say(json.dumps(facts, indent=2))
        else:
            self.say(*_status_lines(facts))

    def _agreed(self, plan: StampPlan, options: dict[str, Any]) -> bool:
        """Show the plan and ask; return False for a dry run."""
        self.say("this will run:")
        self.say(*lines_of(plan))
        if options["dry_run"]:
            self.say("Dry run: nothing was changed.")
            return False
        self.agree("Run this?", options["yes"])
        return True


def _dsn_text(dsn: str) -> str:
    """Return the typed DSN, or a placeholder if it may hold a password."""
    return "DSN" if "=" in dsn or "//" in dsn else dsn


def note_act(text: str, act: str) -> None:
    """Note in the access record, if there is a store, that the trigger was changed."""
    if store_system_identifier() is None:
        return
    source = Source.objects.filter(name=text).first()
    if source is not None:
        note_source(source, act, by=BY)
    else:
        # Do not record the DSN: it may hold a password.
        note(Action.CHANGED_SOURCE, subject="a database by its DSN", details={"act": act, "by": BY})


def _reading(options: dict[str, Any]) -> AbstractContextManager[Connection]:
    return reading(options["conninfo"], deadline_seconds=_DEADLINE_SECONDS)


def lines_of(plan: StampPlan) -> list[str]:
    """Format the statements; print rights and locks once for adjacent ones that share them."""
    lines: list[str] = []
    for (needs, costs), steps in groupby(plan.statements, lambda step: (step.needs, step.costs)):
        lines += [f"  {step};" for step in steps]
        lines += [f"      needs: {needs}", f"      costs: {costs}"]
    return lines + [f"  note: {with_place(note.text, note.field, OPTIONS)}" for note in plan.notes]


def _status_lines(facts: dict[str, Any]) -> list[str]:
    if not facts["installed"]:
        return ["not installed: replview actor install DSN --table SCHEMA.TABLE"]
    stamped, disabled, unstamped = facts["stamped"], facts["disabled"], facts["unstamped"]
    lines = [f"installed, its function runs as {facts['owner']}"]
    if not facts["current"]:
        lines.append("the function is another version's: 'actor install' renews it")
    lines.append(f"stamped ({len(stamped)}): {some_of(stamped, 20) if stamped else 'none'}")
    if disabled:
        lines.append(f"switched off ({len(disabled)}): {some_of(disabled, 20)}; ALTER TABLE … "
                     "ENABLE TRIGGER replview_stamp")  # fmt: skip
    if unstamped:
        lines.append(f"not stamped ({len(unstamped)}): {some_of(unstamped, 20)}")
    lines.append(
        "every role may write logical messages, so a stamp can be forged ('actor install "
        "--revoke-emit' prevents that)"
        if facts["public_may_emit"]
        else "only roles with the privilege may write logical messages: a stamp may be missing, "
        "but other roles cannot forge one"
    )
    return lines
