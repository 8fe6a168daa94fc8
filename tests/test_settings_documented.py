"""Every variable is in the table of settings, and every one in a table is read by somebody."""

from pathlib import Path

import pytest

from tests.variables import ROOT, variables_in_tables, variables_of_the_code

SETTINGS = ROOT / "docs" / "settings.md"


def test_every_variable_the_code_knows_is_documented() -> None:
    known = variables_of_the_code()
    missing = {name: sorted(known[name]) for name in known.keys() - variables_in_tables(SETTINGS)}
    assert missing == {}


@pytest.mark.parametrize("page", [SETTINGS, ROOT / "README.md"], ids=lambda page: page.name)
def test_every_documented_variable_is_known_to_the_code(page: Path) -> None:
    assert variables_in_tables(page) - variables_of_the_code().keys() == set()


def test_the_scan_finds_what_it_is_for() -> None:
    known = variables_of_the_code()
    assert {"REPLVIEW_STORE_URL", "REPLVIEW_STORE_URL_FILE", "REPLVIEW_DATA"} <= known.keys()
