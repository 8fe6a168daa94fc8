"""``replview source credentials|move|rename|remove``: the acts of the pages, asked for here."""

import getpass
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from replview.acts.act import declared_words, lines_of
from replview.acts.credentials import Credentials, plan_credentials, set_credentials
from replview.acts.moving import move_source, plan_move
from replview.acts.sources import plan_remove, plan_rename, remove_source, rename_source
from replview.management.output.instance import PlainCommand, find_source
from replview.store.models import Slot, Source

#: Who did it, where a command did: the access record knows the account.
BY = "the command line"
_PASSWORD_HELP = "where the password is kept: file:/path or env:NAME"


def add_actions(actions: Any) -> list[ArgumentParser]:
    """The actions and their options."""
    credentials = actions.add_parser("credentials", help="a new password, role or address of the "
                                     "same database; tried before it is kept")  # fmt: skip
    credentials.add_argument("name", metavar="NAME")
    credentials.add_argument("--password", action="store_true", help="ask for the password (from "
                             "standard input where there is no terminal)")  # fmt: skip
    credentials.add_argument("--password-ref", default="", metavar="PLACE", help=_PASSWORD_HELP)
    credentials.add_argument("--user", default="", metavar="ROLE", help="connect as this role")
    credentials.add_argument("--dsn", default="", metavar="DSN", help="a whole address")
    move = actions.add_parser("move", help="another host, a promoted standby, another cluster")
    move.add_argument("name", metavar="NAME")
    move.add_argument("dsn", metavar="DSN")
    move.add_argument("--password-ref", default="", metavar="PLACE", help=_PASSWORD_HELP)
    move.add_argument("--keep-password", action="store_true", help="the address holds none: use "
                      "the one that is kept (sent by SCRAM alone)")  # fmt: skip
    rename = actions.add_parser("rename", help="give it another name; its record stays")
    rename.add_argument("name", metavar="NAME")
    rename.add_argument("new_name", metavar="NEW-NAME")
    remove = actions.add_parser("remove", help="forget a source, with its slots if asked for")
    remove.add_argument("name", metavar="NAME")
    remove.add_argument("--with-slots", action="store_true", help="drop ours there, and delete "
                        "their records")  # fmt: skip
    remove.add_argument("--leave-on-source", action="store_true", help="drop nothing there")
    for parser in (move, rename, remove):
        parser.add_argument("--yes", action="store_true", help="do not ask")
    return [credentials, move, rename, remove]


def run(command: PlainCommand, options: dict[str, Any]) -> None:
    """Do it."""
    source = find_source(options["name"])
    if words := declared_words(source):
        command.say(words)
    _RUN[options["action"]](command, source, options)


def _credentials(command: PlainCommand, source: Source, options: dict[str, Any]) -> None:
    password = _read_password(source) if options["password"] else ""
    new = Credentials(dsn=options["dsn"], user=options["user"], password=password,
                      password_ref=options["password_ref"])  # fmt: skip
    if not new.given:
        for line in lines_of(plan_credentials(source)):
            command.say(line)
        raise CommandError("say what is new: --password, --password-ref, --user or --dsn")
    tried = set_credentials(source, new, by=BY)
    how = "with TLS" if tried.tls else "without TLS"
    command.say(f"tried as {tried.server.role} on {tried.server.database}, {how}: taken into use; "
                "receivers connect anew within two seconds")  # fmt: skip


def _read_password(source: Source) -> str:
    if sys.stdin.isatty():
        return getpass.getpass(f"New password of {source}: ")
    return sys.stdin.readline().rstrip("\r\n")


def _move(command: PlainCommand, source: Source, options: dict[str, Any]) -> None:
    typed = {"password_ref": options["password_ref"], "keep_password": options["keep_password"]}
    move = plan_move(source, options["dsn"], **typed)
    for line in lines_of(move.act):
        command.say(line)
    if not command.confirm(f"Read {source} there from now on?", options["yes"]):
        raise CommandError("nothing was done")
    move_source(source, options["dsn"], **typed, by=BY, agreed=move.kind)
    command.say(f"source {source} is read at its new address")


def _rename(command: PlainCommand, source: Source, options: dict[str, Any]) -> None:
    act = plan_rename(source, options["new_name"])
    act.check()
    for line in lines_of(act):
        command.say(line)
    if not command.confirm(f"Call it {options['new_name']}?", options["yes"]):
        raise CommandError("nothing was done")
    rename_source(source, options["new_name"], by=BY)
    command.say(f"source {options['name']} is called {source} now")


def _remove(command: PlainCommand, source: Source, options: dict[str, Any]) -> None:
    slots = Slot.objects.filter(source=source)
    removing = slots.filter(desired=Slot.Desired.REMOVING).exists()
    how = {"with_slots": options["with_slots"], "leave_on_source": options["leave_on_source"]}
    act = plan_remove(source, **how)
    act.check()
    if removing and not options["with_slots"]:
        raise CommandError(
            f"the slots of {source} are still being removed in the background; see 'replview slot "
            "list' and try again, or --with-slots: the source goes when they are gone"
        )
    if act.statements or options["with_slots"] or options["leave_on_source"]:
        for line in lines_of(act):
            command.say(line)
        if not command.confirm(f"Remove {source} with all that was stored?", options["yes"]):
            raise CommandError("nothing was done")
    if remove_source(source, **how, by=BY, say=command.say):
        nothing = "" if act.statements else "; nothing was changed on its server"
        command.say(f"source {options['name']} forgotten{nothing}")
    else:
        command.say(f"source {options['name']} is forgotten when the records of its slots are "
                    "deleted ('replview slot list' shows how far)")  # fmt: skip


_RUN = {"credentials": _credentials, "move": _move, "rename": _rename, "remove": _remove}
