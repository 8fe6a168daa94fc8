"""The help of the commands: none of Django's options, and examples that can be run."""

import shlex

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import CommandParser

from replview import cli
from replview.management.plain_help import PlainHelp, example_lines, index

COMMANDS = sorted(name for name, package in get_commands().items() if package == "replview")
DJANGOS = ("--settings", "--pythonpath", "--traceback", "--no-color", "--force-color",
           "--verbosity", "--version", "--skip-checks")  # fmt: skip


def parser_of(name: str) -> CommandParser:
    command = load_command_class("replview", name)
    assert isinstance(command, PlainHelp)
    return command.create_parser("replview", name)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_no_option_of_django(name: str) -> None:
    text = parser_of(name).format_help()

    assert [option for option in DJANGOS if option in text] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_one_to_three_examples_that_are_valid(name: str) -> None:
    parser = parser_of(name)
    examples = list(example_lines(parser.epilog))

    assert 1 <= len(examples) <= 3
    for line in examples:
        program, command, *words = shlex.split(line)
        assert (program, command) == ("replview", name)
        ends = [n for n, word in enumerate(words) if word in ("|", ">")]
        parser.parse_args(words[: min(ends, default=len(words))])
        assert f"  {line}\n" in parser.format_help()


def test_djangos_options_still_work() -> None:
    words = ["--traceback", "--verbosity", "2", "--no-color"]
    assert parser_of("store").parse_args(words).verbosity == 2


def test_help_of_an_action_shows_its_own_examples() -> None:
    actions = next(action for action in parser_of("slot")._actions if action.dest == "action")
    text = actions.choices["add"].format_help()

    assert "replview slot add shop replview" in text
    assert "replview slot list" not in text


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_the_index_lists_every_command_of_ours_and_no_other(words, monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["replview", *words])
    cli.main()

    shown = capsys.readouterr().out
    assert shown == index() + "\n"
    listed = shown.split("Commands:\n")[1].split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == COMMANDS
    assert max(map(len, shown.splitlines())) <= 100
