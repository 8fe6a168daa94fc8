"""The reference pages are those of the present code, and no variable is left out of the table."""

from pathlib import Path

import pytest

from replview.runtime.environment import FROM_FILES, VARIABLES
from tests.reference import PAGES, pages
from tests.support.variables import variables_of_the_code

#: A setting of the application that uses ``replview.actors``, not a variable of ours.
NOT_VARIABLES = {"REPLVIEW_ACTOR"}


def test_no_reference_page_is_stale() -> None:
    made = pages()
    assert {page.name for page in made} == {"commands.md", "settings.md"}
    stale = [page.name for page, text in made.items() if page.read_text() != text]
    assert not stale, f"run: make reference ({', '.join(stale)})"


def test_the_pages_do_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pages()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("REPLVIEW_DATA", "/elsewhere")
    assert pages() == before


def test_every_variable_the_code_names_is_in_the_table() -> None:
    known = variables_of_the_code()
    documented = VARIABLES.keys() | {f"{name}_FILE" for name in FROM_FILES} | NOT_VARIABLES
    assert {name: sorted(known[name]) for name in known.keys() - documented} == {}


def test_every_variable_of_the_table_is_named_by_other_code() -> None:
    assert VARIABLES.keys() - variables_of_the_code().keys() == set()


def test_the_scan_finds_what_it_is_for() -> None:
    known = variables_of_the_code()
    assert {"REPLVIEW_STORE_URL", "REPLVIEW_STORE_URL_FILE", "REPLVIEW_DATA"} <= known.keys()


def test_a_page_stands_for_every_command_of_ours() -> None:
    commands = Path(PAGES.parents[1], "replview", "management", "commands").glob("[a-z]*.py")
    text = (PAGES / "commands.md").read_text()
    assert [path.stem for path in commands if f"\n## {path.stem}\n" not in text] == []
