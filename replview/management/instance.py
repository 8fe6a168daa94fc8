"""The base classes of replview's commands, and the functions that they share.

They find the instance, sources and slots, print errors in one line, ask questions and show plans.
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
from django.core.management.base import CommandError, OutputWrapper, handle_default_options
from django.db import OperationalError, ProgrammingError, connection, connections

from replview.catalog.plan.plan import Plan, Statement
from replview.management.plain_help import PlainHelp
from replview.store.dsn import full_conninfo, resolve
from replview.store.identity import store_system_identifier
from replview.store.models import Slot, Source
from replview.store.untyped_secrets import trusting_hosts
from replview.text.formats import printable
from replview.text.problem import Problem, with_place

if TYPE_CHECKING:
    # Not imported at run time, so that commands that create no slot start faster.
    from replview.catalog.plan.new_slot import SlotPlan

#: Maps fields of a request, such as ``SlotRequest``, to the options that set them.
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
#: The author of what a command does; the access record also names the system's account.
BY = "the command line"
NO_INSTANCE = (
    "no replview is running here: start one with 'replview demo', or set REPLVIEW_STORE_URL"
)
#: Exit status if no instance is running.
NO_INSTANCE_STATUS = 2
#: Exit status (EX_USAGE) for wrong options or no instance, where 2 means "nothing new".
WRONG_USE = 64


class _Terminal(OutputWrapper):
    """A text stream that escapes control characters if it is a terminal.

    Text from a source could otherwise control the terminal. A pipe or a file gets it unchanged.
    """

    def write(  # type: ignore[override]
        self, msg: str = "", style_func: Any = None, ending: str | None = None
    ) -> None:
        """Write the text, with control characters escaped as in Python if it is a terminal."""
        super().write(printable(msg, "\n\t") if self.isatty() else msg, style_func, ending)


class PlainCommand(PlainHelp):
    """A command whose expected errors are one line with a remedy: no traceback, no class name."""

    requires_system_checks: list[str] = []
    #: Exit status for wrong options or no instance; differs where 2 has another meaning.
    wrong_use_status = NO_INSTANCE_STATUS

    def __init__(self, stdout: Any = None, stderr: Any = None, **options: Any) -> None:
        super().__init__(stdout, stderr, **options)
        self.stdout = _Terminal(stdout or sys.stdout)
        self.stderr = _Terminal(stderr or sys.stderr)

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command; print an expected error as one line without a traceback."""
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
        """Run the command; turn errors of a source, a DSN or the store into ``CommandError``."""
        try:
            with trusting_hosts(bool(options.get("trust_host"))):
                return super().execute(*args, **options)
        except Problem as error:
            raise CommandError(str(error.with_places(OPTIONS))) from None
        except ProgrammingError as error:
            if not isinstance(error.__cause__, psycopg.errors.UndefinedTable):
                raise
            raise CommandError(
                "the store has no tables of this version yet: run 'replview migrate', or start "
                "'replview up'"
            ) from None
        except OperationalError:
            raise CommandError("the store stopped answering; try again") from None

    def add_data(self, parser: ArgumentParser) -> None:
        """Add ``--data``, which ``replview.cli`` has read before Django's settings were loaded."""
        parser.add_argument(
            "--data",
            metavar="FOLDER",
            help="data folder of the running instance (default: .replview)",
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
        """Print lines and flush them, so that they stay in order with other output."""
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
        """Print facts as JSON, as a table, or ``empty`` if there are none.

        ``form`` is ``"json"`` or ``"text"``; ``row`` makes the table's row of a fact.
        """
        if form == "json":
            self.say(json.dumps(facts, indent=2))
        elif not facts:
            self.say(empty)
        else:
            rows = [row(fact) for fact in facts]
            cells = [["" if value is None else str(value) for value in r.values()] for r in rows]
            self.say(table_of([[name.upper().replace("_", " ") for name in rows[0]], *cells]))

    def confirm(self, question: str, yes: bool) -> bool:
        """Ask the question at a terminal and return whether the answer is yes.

        Raises ``CommandError`` where there is no terminal and ``--yes`` was not given.
        """
        if yes:
            return True
        if not sys.stdin.isatty():
            raise CommandError(f"{question} Give --yes: there is no terminal to ask at")
        self.stdout.write(f"{question} [y/N] ", ending="")
        self.stdout.flush()
        return input().strip().lower() in ("y", "yes")

    def agree(self, question: str, yes: bool) -> None:
        """Ask like ``confirm``; raise ``CommandError`` if the answer is no."""
        if not self.confirm(question, yes):
            raise CommandError("nothing was changed")


class InstanceCommand(PlainCommand):
    """A command that needs the store of a running instance."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command, or fail if no instance is running."""
        require_instance(self.wrong_use_status)
        return super().execute(*args, **options)


class Actions(PlainCommand):
    """A command with several actions; a method runs each: ``_sign_out`` for ``sign-out``."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add a parser for each action, each with ``--data``."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        self.add_actions(actions)
        for action in actions.choices.values():
            self.add_data(action)

    def add_actions(self, actions: Any) -> None:
        """Add the parsers of the actions, with their options."""
        raise NotImplementedError

    def handle(self, **options: Any) -> None:
        """Run the method of the chosen action."""
        getattr(self, "_" + options["action"].replace("-", "_"))(options)


def require_instance(status: int = NO_INSTANCE_STATUS) -> None:
    """Raise ``CommandError`` with this exit status unless a store is configured and answers."""
    if not settings.STORE_URL:
        raise CommandError(NO_INSTANCE, returncode=status)
    try:
        connection.ensure_connection()
    except OperationalError:
        address = f"{connection.settings_dict['HOST']}:{connection.settings_dict['PORT']}"
        raise CommandError(
            f"the store at {address} does not answer: start it, or correct REPLVIEW_STORE_URL",
            returncode=status,
        ) from None


@contextmanager
def stopping_on_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM and SIGINT set, so that work can undo what it wrote."""
    stop = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    former = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, former, strict=True):
            signal.signal(number, handler)


def find_source(name: str) -> Source:
    """Return the source of this name. Raises ``CommandError`` that lists the known sources."""
    source = Source.objects.filter(name=name).first()
    if source is None:
        known_names = ", ".join(Source.objects.values_list("name", flat=True)) or "none yet"
        raise CommandError(
            f"there is no source {name}; known: {known_names}. See 'replview source list'"
        )
    return source


def add_slot_action(actions: Any, action: str, about: str) -> ArgumentParser:
    """Add an action of ``replview slot`` on one slot, with the arguments for ``slot_of``."""
    parser: ArgumentParser = actions.add_parser(action, help=about)
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("name", metavar="NAME")
    return parser


def slot_of(options: dict[str, Any]) -> Slot:
    """Return the slot that the arguments SOURCE and NAME name. Raises ``CommandError``."""
    return find_slot(f"{options['source']}/{options['name']}")


def find_slot(text: str) -> Slot:
    """Return the slot named ``SOURCE/NAME``, or ``NAME`` if only one source has it.

    Raises ``CommandError``.
    """
    source, slash, name = text.rpartition("/")
    matching = Slot.objects.filter(name=name).select_related("source", "incarnation")
    if slash:
        matching = matching.filter(source__name=source)
    slots = list(matching[:2])
    if len(slots) == 1:
        return slots[0]
    if slots:
        raise CommandError(f"several sources have a slot {name}: write SOURCE/{name}")
    known_names = (
        ", ".join(str(slot) for slot in Slot.objects.select_related("source")) or "none yet"
    )
    raise CommandError(f"there is no slot {text}; known: {known_names}. See 'replview slot list'")


def table_of(rows: list[list[str]]) -> str:
    """Format rows, the first of them a heading, in aligned columns."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
             for row in rows)  # fmt: skip
    return "\n".join(line.rstrip() for line in lines)


def statement_lines(statements: Iterable[Statement]) -> list[str]:
    """Format statements as lines, each with the rights it needs and its cost."""
    lines = []
    for statement in statements:
        lines += [
            f"  {statement};",
            f"      needs: {statement.needs}",
            f"      costs: {statement.costs}",
        ]
    return lines


def lines_of(plan: Plan) -> list[str]:
    """Format a plan: the server, the statements, then the consequences."""
    begin = "this will run:" if plan.statements else "nothing is changed"
    lines = [f"on {plan.on} {begin}", *statement_lines(plan.statements)]
    return lines + [f"  {sentence}" for sentence in plan.consequences]


def conninfo_of(text: str) -> str:
    """Return the conninfo of the source with this name, or of the text as a DSN."""
    if "=" in text or ":" in text or store_system_identifier() is None:
        return resolve(text)
    source = Source.objects.filter(name=text).first()
    return resolve(text) if source is None else full_conninfo(source)


def lines_of_slot(plan: "SlotPlan") -> list[str]:
    """Format the plan of a new slot: statements, notes, then what creation waits for."""
    lines = statement_lines(plan.statements)
    lines += [f"  note: {with_place(note.text, note.field, OPTIONS)}" for note in plan.notes]
    return lines + [
        f"  creating the slot now would wait for {transaction}" for transaction in plan.waits_for
    ]
