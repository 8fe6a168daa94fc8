"""What replview's commands share: the instance they talk to, errors in one line, questions, a
plan for a terminal.
"""

import json
import signal
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from django.conf import settings
from django.core.management.base import (
    BaseCommand,
    CommandError,
    OutputWrapper,
    handle_default_options,
)
from django.db import OperationalError, ProgrammingError, connection, connections

from replview.catalog.plan.plan import Plan, Statement
from replview.store.dsn import full_conninfo, resolve
from replview.store.identity import store_system_identifier
from replview.store.models import Slot, Source
from replview.store.untyped_secrets import trusting_hosts
from replview.text.formats import printable
from replview.text.problem import Problem, with_place

if TYPE_CHECKING:
    # Commands that make no slot start without it.
    from replview.catalog.plan.new_slot import SlotPlan

#: Fields of a request (``SlotRequest`` and its like) → the option that gives them.
OPTIONS: Mapping[str, str] = {
    "adopt": "--adopt",
    "all_tables": "--all-tables",
    "exclude": "--exclude-column",
    "failover": "--failover",
    "heartbeat_seconds": "--heartbeat",
    "interface": "--interface sql",
    "leave_on_source": "--leave-on-source",
    "mask": "--mask-column",
    "protect": "--protect record: warn only",
    "publications": "--publication",
    "revoke_emit": "--revoke-emit",
    "schemas": "--schema",
    "stamped_tables": "--table",
    "tables": "--tables",
    "two_phase": "--no-two-phase",
    "wal_budget_bytes": "--wal-budget",
    "with_slots": "--with-slots",
}
#: Who did it, where a command did: the access record knows the account.
BY = "the command line"
NO_INSTANCE = (
    "no replview is running here: start one with 'replview demo', or set REPLVIEW_STORE_URL"
)
#: Exit status when there is no instance to talk to.
NO_INSTANCE_STATUS = 2
#: Of wrong options and no instance where the status 2 says that nothing is new (EX_USAGE).
WRONG_USE = 64


class _Terminal(OutputWrapper):
    """A stream of text that cannot steer the terminal: what comes from a source may hold control
    characters. Data that goes to a pipe or a file stays as it is.
    """

    def write(  # type: ignore[override]
        self, msg: str = "", style_func: Any = None, ending: str | None = None
    ) -> None:
        """As Django's; those characters are written as Python escapes them."""
        super().write(printable(msg, "\n\t") if self.isatty() else msg, style_func, ending)


class PlainCommand(BaseCommand):
    """A command whose expected errors are one line with a remedy: no traceback, no class name."""

    requires_system_checks: list[str] = []
    #: Where the status 2 means something else: that of wrong options, and of no instance.
    wrong_use_status = NO_INSTANCE_STATUS

    def __init__(self, stdout: Any = None, stderr: Any = None, **options: Any) -> None:
        super().__init__(stdout, stderr, **options)
        self.stdout = _Terminal(stdout or sys.stdout)
        self.stderr = _Terminal(stderr or sys.stderr)

    def run_from_argv(self, argv: list[str]) -> None:
        """As Django's, with the error's text alone."""
        self._called_from_command_line = True
        try:
            parsed = self.create_parser(argv[0], argv[1]).parse_args(argv[2:])
        except SystemExit as error:
            sys.exit(self.wrong_use_status if error.code else 0)
        handle_default_options(parsed)
        options = vars(parsed)
        try:
            self.execute(*options.pop("args", ()), **options)
        except CommandError as error:
            if options.get("traceback"):
                raise
            self.stderr.write(f"replview: {error}")
            sys.exit(error.returncode)
        except KeyboardInterrupt:
            self.stderr.write("replview: stopped")
            sys.exit(130)
        finally:
            connections.close_all()

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run; what a source, a DSN or a store may refuse becomes a ``CommandError``."""
        try:
            with trusting_hosts(bool(options.get("trust_host"))):
                return super().execute(*args, **options)
        except Problem as error:
            raise CommandError(str(error.with_places(OPTIONS))) from None
        except ProgrammingError as error:
            if not isinstance(error.__cause__, psycopg.errors.UndefinedTable):
                raise
            raise CommandError(
                "the store has no tables of this version yet: 'replview up' makes them, or "
                "'replview migrate'"
            ) from None
        except OperationalError:
            raise CommandError("the store does not answer any more; try again") from None

    def add_data(self, parser: ArgumentParser) -> None:
        """``--data``, which ``replview.cli`` has already read before settings were loaded."""
        parser.add_argument(
            "--data", metavar="FOLDER", help="of the running instance (default: .replview)"
        )

    def add_trust_host(self, parser: ArgumentParser) -> None:
        """Add ``--trust-host``, which ``execute`` takes into account."""
        parser.add_argument(
            "--trust-host",
            action="store_true",
            help="send a password that is kept at env:NAME or file:/path to the hosts named here, "
            "though REPLVIEW_SOURCE_PASSWORDS does not name them for it",
        )

    def say(self, *lines: str) -> None:
        """Lines for the person at the terminal, in order with what went before."""
        for line in lines:
            self.stdout.write(line)
        self.stdout.flush()

    def say_facts(
        self,
        facts: Sequence[Mapping[str, Any]],
        form: str,
        empty: str,
        row: Callable[[Any], Mapping[str, Any]] = lambda fact: fact,
    ) -> None:
        """The facts as JSON (``form``), else a table of the ``row`` of each, else ``empty``."""
        if form == "json":
            self.say(json.dumps(facts, indent=2))
        elif not facts:
            self.say(empty)
        else:
            rows = [row(fact) for fact in facts]
            cells = [["" if value is None else str(value) for value in r.values()] for r in rows]
            self.say(table_of([[name.upper().replace("_", " ") for name in rows[0]], *cells]))

    def confirm(self, question: str, yes: bool) -> bool:
        """Ask y/N at a terminal; elsewhere ``--yes`` must have answered."""
        if yes:
            return True
        if not sys.stdin.isatty():
            raise CommandError(f"{question} Answer with --yes: there is no terminal to ask at")
        self.stdout.write(f"{question} [y/N] ", ending="")
        self.stdout.flush()
        return input().strip().lower() in ("y", "yes")

    def agree(self, question: str, yes: bool) -> None:
        """As ``confirm``; raises ``CommandError`` where the answer is no."""
        if not self.confirm(question, yes):
            raise CommandError("nothing was done")


class InstanceCommand(PlainCommand):
    """A command that needs the store of a running instance."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        require_instance(self.wrong_use_status)
        return super().execute(*args, **options)


class Actions(PlainCommand):
    """A command of several actions, each of which is a method ``_ACTION`` and takes ``--data``."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        self.add_actions(actions)
        for action in actions.choices.values():
            self.add_data(action)

    def add_actions(self, actions: Any) -> None:
        """The parsers of the actions, with their options."""
        raise NotImplementedError

    def handle(self, **options: Any) -> None:
        getattr(self, f"_{options['action']}")(options)


def require_instance(status: int = NO_INSTANCE_STATUS) -> None:
    """Raise ``CommandError`` (with this exit status) unless a store is named and answers."""
    if not settings.STORE_URL:
        raise CommandError(NO_INSTANCE, returncode=status)
    try:
        connection.ensure_connection()
    except OperationalError:
        place = f"{connection.settings_dict['HOST']}:{connection.settings_dict['PORT']}"
        raise CommandError(
            f"the store at {place} does not answer: start it, or correct REPLVIEW_STORE_URL",
            returncode=status,
        ) from None


@contextmanager
def stopping_on_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set, for work that then takes back what it wrote."""
    stop = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    former = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, former, strict=True):
            signal.signal(number, handler)


def find_source(name: str) -> Source:
    """The source of this name. Raises ``CommandError`` naming those there are."""
    source = Source.objects.filter(name=name).first()
    if source is None:
        known = ", ".join(Source.objects.values_list("name", flat=True)) or "none yet"
        raise CommandError(f"there is no source {name}; known: {known}. See 'replview source list'")
    return source


def add_slot_action(actions: Any, action: str, about: str) -> ArgumentParser:
    """An action of ``replview slot`` on one slot, which ``slot_of`` finds."""
    parser: ArgumentParser = actions.add_parser(action, help=about)
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("name", metavar="NAME")
    return parser


def slot_of(options: dict[str, Any]) -> Slot:
    return find_slot(f"{options['source']}/{options['name']}")


def find_slot(text: str) -> Slot:
    """The slot named ``SOURCE/NAME``, or ``NAME`` where only one source has it."""
    source, slash, name = text.rpartition("/")
    found = Slot.objects.filter(name=name).select_related("source", "incarnation")
    if slash:
        found = found.filter(source__name=source)
    slots = list(found[:2])
    if len(slots) == 1:
        return slots[0]
    if slots:
        raise CommandError(f"several sources have a slot {name}: say SOURCE/{name}")
    known = ", ".join(str(slot) for slot in Slot.objects.select_related("source")) or "none yet"
    raise CommandError(f"there is no slot {text}; known: {known}. See 'replview slot list'")


def table_of(rows: list[list[str]]) -> str:
    """Rows in aligned columns, the first one a heading."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
             for row in rows)  # fmt: skip
    return "\n".join(line.rstrip() for line in lines)


def statement_lines(statements: Iterable[Statement]) -> list[str]:
    lines = []
    for one in statements:
        lines += [f"  {one};", f"      needs: {one.needs}", f"      costs: {one.costs}"]
    return lines


def lines_of(plan: Plan) -> list[str]:
    """Where it runs, the statements, then the consequences."""
    begin = "this will run:" if plan.statements else "nothing is changed"
    lines = [f"on {plan.on} {begin}", *statement_lines(plan.statements)]
    return lines + [f"  {sentence}" for sentence in plan.consequences]


def conninfo_of(text: str) -> str:
    """A source's name where the store knows it, else a DSN."""
    if "=" in text or ":" in text or store_system_identifier() is None:
        return resolve(text)
    source = Source.objects.filter(name=text).first()
    return resolve(text) if source is None else full_conninfo(source)


def lines_of_slot(plan: "SlotPlan") -> list[str]:
    """Of a new slot: the statements, then what else there is to know."""
    lines = statement_lines(plan.statements)
    lines += [f"  note: {with_place(note.text, note.field, OPTIONS)}" for note in plan.notes]
    return lines + [f"  the slot would now wait for {item}" for item in plan.waits_for]
