"""``replview account add|list|role|grant|revoke|disable|enable|password|unlock|…``.

It manages accounts, their roles and what they may see.
"""

import getpass
import json
import sys
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.core.management.base import CommandError

from replview.access import accounts, second_factor
from replview.access.rights import Role, ensure_roles, role_of, users_with_rights
from replview.live.publisher import publisher
from replview.management.instance import Actions, InstanceCommand, find_source
from replview.store.models import Grant

_ROLES = [role.word for role in Role]
_ASSIGNED = "its owner has to change the password at the first sign-in, within 72 hours"


class Command(Actions, InstanceCommand):
    """The command that manages accounts, roles and grants."""

    help = "Add, list and close accounts, and change their roles and grants."
    examples = (
        "replview account add alice --role viewer",
        "replview account grant alice --source shop --tables 'public.*'",
    )

    def add_actions(self, actions: Any) -> None:
        """Add the parsers of the actions on accounts."""
        add = actions.add_parser("add", help="add an account")
        add.add_argument("name", metavar="NAME")
        add.add_argument("--role", choices=_ROLES, required=True)
        password_group = add.add_mutually_exclusive_group()
        password_group.add_argument(
            "--password-stdin", action="store_true", help="read it from standard input"
        )
        password_group.add_argument(
            "--no-password", action="store_true", help="allow single sign-on only"
        )
        listing = actions.add_parser("list", help="list all accounts, roles and grants")
        listing.add_argument("--format", choices=["text", "json"], default="text")
        role = actions.add_parser("role", help="change an account's role")
        role.add_argument("name", metavar="NAME")
        role.add_argument("role", choices=[*_ROLES, "none"])
        _add_grant_actions(actions)
        for action, text in (
            ("disable", "close an account"),
            ("enable", "open a closed account"),
            ("unlock", "let an account sign in again that failed too often"),
            ("remove-second-factor", "let an account sign in whose authenticator app is lost"),
        ):
            actions.add_parser(action, help=text).add_argument("name", metavar="NAME")
        password = actions.add_parser(
            "password",
            help="set an account's password, which its owner changes at the next sign-in",
        )
        password.add_argument("name", metavar="NAME")
        password.add_argument(
            "--password-stdin", action="store_true", help="read it from standard input"
        )

    def _add(self, options: dict[str, Any]) -> None:
        password = None if options["no_password"] else _read_password(options)
        user = accounts.create_account(options["name"], Role.of_word(options["role"]), password)
        self.say(f"account {user} has the role {options['role']}")
        if password is not None:
            self.say(_ASSIGNED)

    def _list(self, options: dict[str, Any]) -> None:
        rows = [_facts(user) for user in users_with_rights().order_by("username")]
        if options["format"] == "json":
            groups = Group.objects.order_by("name").prefetch_related("grants__source")
            grants = {group.name: [str(grant) for grant in group.grants.all()] for group in groups}
            self.say(json.dumps({"accounts": rows, "groups": grants}, indent=2))
        else:
            self.say_facts(rows, "text", "no accounts yet: replview account add NAME --role admin")

    def _role(self, options: dict[str, Any]) -> None:
        user = _find(options["name"])
        accounts.change_role(user, Role.of_word(options["role"]))
        _refresh_pages(user)
        self.say(f"account {user} has the role {options['role']}")

    def _grant(self, options: dict[str, Any]) -> None:
        holder = _holder(options, make=True)
        source = find_source(options["source"]) if options["source"] else None
        grant = accounts.give_grant(holder, source, options["tables"].split(","))
        self.say(f"{holder} sees {grant}")

    def _revoke(self, options: dict[str, Any]) -> None:
        holder = _holder(options, make=False)
        source = find_source(options["source"]) if options["source"] else None
        holder_field = {"group": holder} if isinstance(holder, Group) else {"user": holder}
        revoked = list(Grant.objects.filter(source=source, **holder_field))
        if not revoked:
            raise CommandError(f"{holder} has no such grant; see 'replview account list'")
        for grant in revoked:
            accounts.take_grant(grant)
        self.say(f"{holder} no longer sees {source or 'every source'} by a grant of its own")

    def _disable(self, options: dict[str, Any]) -> None:
        user = _find(options["name"])
        accounts.close_account(user)
        _refresh_pages(user)
        self.say(f"account {options['name']} is closed")

    def _enable(self, options: dict[str, Any]) -> None:
        accounts.open_account(_find(options["name"]))
        self.say(f"account {options['name']} is open")

    def _unlock(self, options: dict[str, Any]) -> None:
        accounts.unlock(_find(options["name"]))
        self.say(f"account {options['name']} is unlocked: its failed logins are deleted")

    def _remove_second_factor(self, options: dict[str, Any]) -> None:
        user = _find(options["name"])
        second_factor.remove(user)
        _refresh_pages(user)
        self.say(f"account {user} has no second factor any more, and is signed out")

    def _password(self, options: dict[str, Any]) -> None:
        user = _find(options["name"])
        accounts.change_password(user, _read_password(options), by_owner=False)
        _refresh_pages(user)
        self.say(f"account {user} has a new password, is signed out, and its tokens are revoked")
        self.say(_ASSIGNED)


def _add_grant_actions(actions: Any) -> None:
    """Add the parsers of ``grant`` and ``revoke``."""
    for action_name, text in (("grant", "let an account or group see a source, or tables of it"),
                       ("revoke", "take a grant away")):  # fmt: skip
        action = actions.add_parser(action_name, help=text)
        holder_group = action.add_mutually_exclusive_group(required=True)
        holder_group.add_argument("name", metavar="NAME", nargs="?")
        holder_group.add_argument(
            "--group", metavar="GROUP", help="viewer, operator, or a group of your own"
        )
        source_group = action.add_mutually_exclusive_group(required=True)
        source_group.add_argument("--source", metavar="SOURCE")
        source_group.add_argument("--every-source", action="store_true")
        if action_name == "grant":
            action.add_argument(
                "--tables",
                metavar="PATTERNS",
                default="",
                help="such as 'public.*'; separate several with commas (default: all)",
            )


def _refresh_pages(user: User) -> None:
    """Make the account's open pages end, or show what it may see now, at once."""
    publisher().account_changed(user.pk)
    publisher().close()


def _read_password(options: dict[str, Any]) -> str:
    if options["password_stdin"]:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise CommandError("no terminal to ask for a password: use --password-stdin")
    password = getpass.getpass("Password: ")
    if password != getpass.getpass("Password (again): "):
        raise CommandError("the two passwords differ")
    return password


def _find(name: str) -> User:
    user = get_user_model()._default_manager.filter(username=name).first()
    if user is None:
        raise CommandError(f"there is no account {name}; see 'replview account list'")
    return user


def _holder(options: dict[str, Any], *, make: bool) -> Any:
    if options["name"]:
        return _find(options["name"])
    ensure_roles()
    name = options["group"][:150]
    group = Group.objects.filter(name=name).first()
    if group is None and not make:
        raise CommandError(f"there is no group {name}; see 'replview account list --format json'")
    return group or Group.objects.create(name=name)


def _facts(user: User) -> dict[str, str]:
    role = role_of(user)
    last = user.last_login
    return {
        "name": user.get_username(),
        "role": role.word if role else "none",
        "grants": "; ".join(str(grant) for grant in user.grants.select_related("source")) or "-",
        "last_signed_in": f"{last:%Y-%m-%d %H:%M}" if last else "never",
        "second_factor": "yes" if second_factor.is_on(user) else "no",
        "state": "open" if user.is_active else "closed",
    }
