"""The help of replview's commands: no options of Django, and examples that can be copied."""

import argparse
import re
from collections.abc import Iterator, Sequence
from typing import Any

from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand, CommandParser
from django.utils.text import capfirst

#: Options that Django adds to every command. They are accepted, but no help lists them.
_DJANGO_OPTIONS = {
    "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color",
    "--force-color",
}  # fmt: skip
_EXAMPLES_HEADING = "Examples:"
_INDEX = """\
usage: replview COMMAND [OPTIONS]

Watch, record and search the changes of PostgreSQL databases by logical replication.

Commands:
{commands}

Options:
  -h, --help  show this help, or a command's: replview COMMAND --help
  --version   show replview's version

Examples:
  replview demo
  replview source add shop 'host=db.example dbname=shop user=replview'
  replview slot add --help"""


class _Formatter(argparse.HelpFormatter):
    """A formatter that wraps text, but keeps the indented lines of examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(_EXAMPLES_HEADING):
            return text
        return super()._fill_text(text, width, indent)


class PlainHelp(BaseCommand):
    """A command whose ``--help`` lists its own options and shows examples."""

    suppressed_base_arguments = _DJANGO_OPTIONS
    #: One to three command lines, each beginning with ``replview``.
    examples: Sequence[str] = ()

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Return Django's parser, with the examples below the options.

        The parser of an action, such as ``slot add``, shows the examples of this action.
        """
        parser = super().create_parser(prog_name, subcommand, formatter_class=_Formatter, **kwargs)
        parser.epilog = _examples(self.examples)
        for action in parser._actions:
            # Django adds this one without asking for what is suppressed.
            if action.dest == "skip_checks":
                action.help = argparse.SUPPRESS
            if isinstance(action, argparse._SubParsersAction):
                helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
                for name, child in action.choices.items():
                    line = f"replview {subcommand} {name}"
                    child.description = child.description or _sentence(helps.get(name, ""))
                    child.formatter_class = _Formatter
                    child.epilog = _examples(
                        [text for text in self.examples if f"{text} ".startswith(f"{line} ")]
                    )
        return parser


def index() -> str:
    """Return the text of ``replview --help``: every command with the first sentence of its help."""
    names = sorted(name for name, package in get_commands().items() if package == "replview")
    width = max(map(len, names))
    lines = (f"  {name.ljust(width)}  {first_sentence(_help(name))}" for name in names)
    return _INDEX.format(commands="\n".join(lines))


def first_sentence(text: str) -> str:
    """Return the first sentence of a help text, on one line and without its full stop."""
    return re.split(r"(?<=[.:])\s", " ".join(text.split()), maxsplit=1)[0].rstrip(".:")


def example_lines(epilog: str | None) -> Iterator[str]:
    """Yield the command lines that a parser shows as examples."""
    yield from (line.strip() for line in (epilog or "").splitlines()[1:])


def _help(name: str) -> str:
    return load_command_class("replview", name).help


def _examples(lines: Sequence[str]) -> str | None:
    return "\n".join([_EXAMPLES_HEADING, *(f"  {line}" for line in lines)]) if lines else None


def _sentence(text: str) -> str:
    return capfirst(text) + ("." if text and text[-1] not in ".?!" else "")
