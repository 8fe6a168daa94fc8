"""``replview source add|list|credentials|move|rename|remove``: the databases replview reads."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from replview.acts.sources import add_source, check_new_name
from replview.catalog.doctor.doctor import examine
from replview.catalog.doctor.findings import Grade
from replview.management.commands.doctor import lines_of
from replview.management.output import source_acts
from replview.management.output.instance import InstanceCommand, store_system_identifier, table_of
from replview.store.dsn import full_conninfo, set_dsn
from replview.store.models import Source

#: Without these nothing could ever be read: the source is not taken without --yes.
_UNREACHABLE = {"wrong_password", "no_such_database", "no_such_role", "no_login", "unreachable",
                "unknown_host", "unknown_service", "hba_refused", "tls"}  # fmt: skip


class Command(InstanceCommand):
    """Sources: add, list, other credentials, another address or name, remove."""

    help = "Add, list, change or remove the PostgreSQL databases that replview reads."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The actions and their options."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        add = actions.add_parser("add", help="make a database known to replview")
        add.add_argument("name", metavar="NAME")
        add.add_argument("dsn", metavar="DSN", nargs="?", help="see --dsn")
        add.add_argument(
            "--dsn",
            dest="dsn_option",
            metavar="DSN",
            help="a libpq connection string, service=NAME or env:VARIABLE; other users of this "
            "machine may see a password given here, one in a service file or variable they do not",
        )
        add.add_argument("--password-ref", default="", metavar="PLACE", help="where the password "
                         "is kept: file:/path (read at each connection) or env:NAME")  # fmt: skip
        add.add_argument("--yes", action="store_true", help="add it though it cannot be reached")
        listing = actions.add_parser("list", help="the sources replview knows")
        listing.add_argument("--format", choices=["text", "json"], default="text")
        for action in (add, listing, *source_acts.add_actions(actions)):
            self.add_data(action)

    def handle(self, **options: Any) -> None:
        """Run the action."""
        own = {"add": self._add, "list": self._list}
        if options["action"] in own:
            own[options["action"]](options)
        else:
            source_acts.run(self, options)

    def _add(self, options: dict[str, Any]) -> None:
        name, dsn = options["name"], options["dsn_option"] or options["dsn"]
        if not dsn:
            raise CommandError("name the database: replview source add NAME DSN")
        check_new_name(name)
        source = Source(name=name)
        set_dsn(source, dsn, options["password_ref"])
        findings = examine(full_conninfo(source), store_system_identifier=store_system_identifier())
        for line in lines_of([item for item in findings if item.grade is not Grade.OK]):
            self.say(line)
        if any(item.code in _UNREACHABLE for item in findings) and not self.confirm(
            "The source cannot be reached. Add it all the same?", options["yes"]
        ):
            raise CommandError("not added")
        add_source(name, dsn, options["password_ref"], by=source_acts.BY)
        self.say(f"source {name} added; next: replview slot add {name} SLOT")

    def _list(self, options: dict[str, Any]) -> None:
        sources = [_facts(source) for source in Source.objects.filter(ephemeral=False)]
        if options["format"] == "json":
            self.say(json.dumps(sources, indent=2))
        elif not sources:
            self.say("no sources yet: replview source add NAME DSN")
        else:
            heading = ["SOURCE", "SERVER", "SLOTS", "STATE", "ADDRESS"]
            self.say(table_of([heading] + [_row(facts) for facts in sources]))


def _facts(source: Source) -> dict[str, Any]:
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


def _row(facts: dict[str, Any]) -> list[str]:
    version = facts["server_version"]
    server = f"{version // 10000}.{version % 10000}" if version else "unknown"
    state = facts["problem"] or ("ok" if facts["checked_at"] else "not checked yet")
    return [facts["name"], server, str(len(facts["slots"])), state, facts["conninfo"]]
