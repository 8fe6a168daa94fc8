"""``replview source add|list|credentials|move|rename|remove``: manage the source databases."""

import getpass
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from replview.acts.credentials import Credentials, plan_credentials, set_credentials
from replview.acts.moving import move_source, plan_move
from replview.acts.noting import declared_words
from replview.acts.sources import (
    add_source,
    check_new_name,
    plan_remove,
    plan_rename,
    remove_source,
    rename_source,
)
from replview.catalog.doctor import examine
from replview.catalog.doctor_checks import Grade
from replview.management import instance
from replview.management.commands.doctor import lines_of as lines_of_findings
from replview.store.dsn import full_conninfo, set_dsn
from replview.store.identity import store_system_identifier
from replview.store.models import Slot, Source

#: Findings that prevent any reading; with one of them, adding the source needs --yes.
_UNREACHABLE_CODES = {
    "wrong_password", "no_such_database", "no_such_role", "no_login", "unreachable", "unknown_host",
    "unknown_service", "hba_refused", "tls",
}  # fmt: skip
_PASSWORD_HELP = "where the password is kept: file:/path or env:NAME"


class Command(instance.Actions, instance.InstanceCommand):
    """The command that manages sources."""

    help = "Add, list, change and remove the PostgreSQL databases that replview reads."
    examples = (
        "replview source add shop 'host=db.example dbname=shop user=replview'",
        "replview source list",
    )

    def add_actions(self, actions: Any) -> None:
        """Add the parsers of all actions on sources."""
        add = actions.add_parser("add", help="add a database")
        add.add_argument("name", metavar="NAME")
        add.add_argument("dsn", metavar="DSN", nargs="?", help="see --dsn")
        add.add_argument(
            "--dsn",
            dest="dsn_option",
            metavar="DSN",
            help="a libpq connection string, service=NAME or env:VARIABLE; a password given here "
            "may be seen by other users of this machine, one in a service file or variable not",
        )
        add.add_argument("--password-ref", default="", metavar="PLACE", help="where the password "
                         "is kept: file:/path (read at each connection) or env:NAME")  # fmt: skip
        self.add_trust_host(add)
        add.add_argument("--yes", action="store_true", help="add it even if it cannot be reached")
        listing = actions.add_parser("list", help="list all sources")
        listing.add_argument("--format", choices=["text", "json"], default="text")
        for parser in add_actions(actions):
            self.add_trust_host(parser)

    def handle(self, **options: Any) -> None:
        """Run the action; first warn if a fleet file declares the source."""
        if options["action"] not in _RUNNERS:
            super().handle(**options)
            return
        source = instance.find_source(options["name"])
        if warning := declared_words(source):
            self.say(warning)
        _RUNNERS[options["action"]](self, source, options)

    def _add(self, options: dict[str, Any]) -> None:
        name, dsn = options["name"], options["dsn_option"] or options["dsn"]
        if not dsn:
            raise CommandError("give the connection string: replview source add NAME DSN")
        check_new_name(name)
        source = Source(name=name)
        set_dsn(source, dsn, options["password_ref"])
        findings = examine(full_conninfo(source), store_system_identifier=store_system_identifier())
        self.say(
            *lines_of_findings([finding for finding in findings if finding.grade is not Grade.OK])
        )
        if any(finding.code in _UNREACHABLE_CODES for finding in findings) and not self.confirm(
            "The source cannot be reached. Add it anyway?", options["yes"]
        ):
            raise CommandError("the source was not added")
        add_source(name, dsn, options["password_ref"], by=instance.BY)
        self.say(f"source {name} added; next: replview slot add {name} SLOT")

    def _list(self, options: dict[str, Any]) -> None:
        sources = [_facts(source) for source in Source.objects.filter(ephemeral=False)]
        empty = "no sources yet: replview source add NAME DSN"
        self.say_facts(sources, options["format"], empty, row=_row)


def _facts(source: Source) -> dict[str, object]:
    version = source.server_version
    return {
        "name": source.name,
        "conninfo": source.conninfo,
        "password_sealed": bool(source.sealed_password),
        "password_ref": source.password_ref or None,
        "server_version": version,
        "system_identifier": source.system_identifier,
        "managed_by": source.managed_by or None,
        "slots": [slot.name for slot in source.slots.all()],
        "checked_at": source.checked_at.isoformat() if source.checked_at else None,
        "problem": source.problem_cause or None,
        "remedy": source.problem_remedy or None,
    }


def _row(facts: dict[str, Any]) -> dict[str, Any]:
    version = facts["server_version"]
    return {
        "source": facts["name"],
        "server": f"{version // 10000}.{version % 10000}" if version else "unknown",
        "slots": len(facts["slots"]),
        "state": facts["problem"] or ("ok" if facts["checked_at"] else "not checked yet"),
        "address": facts["conninfo"],
    }


def add_actions(actions: Any) -> list[ArgumentParser]:
    """Add the parsers of the actions on an existing source; return those that take an address."""
    credentials = actions.add_parser(
        "credentials",
        help="change password, role or address of the same database; tested before they are stored",
    )
    credentials.add_argument("name", metavar="NAME")
    credentials.add_argument(
        "--password",
        action="store_true",
        help="ask for the password (without a terminal: read standard input)",
    )
    credentials.add_argument("--password-ref", default="", metavar="PLACE", help=_PASSWORD_HELP)
    credentials.add_argument("--user", default="", metavar="ROLE", help="connect as this role")
    credentials.add_argument("--dsn", default="", metavar="DSN", help="a whole connection string")
    move = actions.add_parser(
        "move", help="read a source from another host, a promoted standby or another cluster"
    )
    move.add_argument("name", metavar="NAME")
    move.add_argument("dsn", metavar="DSN")
    move.add_argument("--password-ref", default="", metavar="PLACE", help=_PASSWORD_HELP)
    move.add_argument("--keep-password", action="store_true", help="use the stored password "
                      "(sent by SCRAM only)")  # fmt: skip
    rename = actions.add_parser("rename", help="rename a source; its history stays")
    rename.add_argument("name", metavar="NAME")
    rename.add_argument("new_name", metavar="NEW-NAME")
    remove = actions.add_parser("remove", help="remove a source, with its slots if asked for")
    remove.add_argument("name", metavar="NAME")
    remove.add_argument(
        "--with-slots", action="store_true", help="drop its slots there, and delete their history"
    )
    remove.add_argument("--leave-on-source", action="store_true", help="drop nothing on the source")
    for parser in (move, rename, remove):
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    return [credentials, move]


def _credentials(command: instance.PlainCommand, source: Source, options: dict[str, Any]) -> None:
    password = _read_password(source) if options["password"] else ""
    new = Credentials(dsn=options["dsn"], user=options["user"], password=password,
                      password_ref=options["password_ref"])  # fmt: skip
    if not new.given:
        command.say(*instance.lines_of(plan_credentials(source)))
        raise CommandError("name what changes: --password, --password-ref, --user or --dsn")
    tried = set_credentials(source, new, by=instance.BY)
    encryption = "with TLS" if tried.tls else "without TLS"
    command.say(f"connected as {tried.server.role} to {tried.server.database}, {encryption}; "
                "stored. Receivers connect again within two seconds")  # fmt: skip


def _read_password(source: Source) -> str:
    if sys.stdin.isatty():
        return getpass.getpass(f"New password of {source}: ")
    return sys.stdin.readline().rstrip("\r\n")


def _move(command: instance.PlainCommand, source: Source, options: dict[str, Any]) -> None:
    typed = {"password_ref": options["password_ref"], "keep_password": options["keep_password"]}
    move = plan_move(source, options["dsn"], **typed)
    command.say(*instance.lines_of(move.act))
    command.agree(f"Read {source} from this address from now on?", options["yes"])
    move_source(source, options["dsn"], **typed, by=instance.BY, agreed=move.kind)
    command.say(f"source {source} is read at its new address")


def _rename(command: instance.PlainCommand, source: Source, options: dict[str, Any]) -> None:
    act = plan_rename(source, options["new_name"])
    act.check()
    command.say(*instance.lines_of(act))
    command.agree(f"Rename it to {options['new_name']}?", options["yes"])
    rename_source(source, options["new_name"], by=instance.BY)
    command.say(f"source {options['name']} is now named {source}")


def _remove(command: instance.PlainCommand, source: Source, options: dict[str, Any]) -> None:
    slots = Slot.objects.filter(source=source)
    removing = slots.filter(desired=Slot.Desired.REMOVING).exists()
    choices = {"with_slots": options["with_slots"], "leave_on_source": options["leave_on_source"]}
    act = plan_remove(source, **choices)
    act.check()
    if removing and not options["with_slots"]:
        raise CommandError(
            f"the slots of {source} are still being removed in the background; see 'replview slot "
            "list' and try again, or add --with-slots to remove the source after them"
        )
    if act.statements or options["with_slots"] or options["leave_on_source"]:
        command.say(*instance.lines_of(act))
        command.agree(f"Remove {source} and all its history?", options["yes"])
    if remove_source(source, **choices, by=instance.BY, say=command.say):
        suffix = "" if act.statements else "; nothing was changed on its server"
        command.say(f"source {options['name']} removed{suffix}")
    else:
        command.say(f"source {options['name']} is removed when the history of its slots is "
                    "deleted ('replview slot list' shows the progress)")  # fmt: skip


_RUNNERS = {"credentials": _credentials, "move": _move, "rename": _rename, "remove": _remove}
