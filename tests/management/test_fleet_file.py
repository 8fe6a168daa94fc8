"""A fleet file as it is read: what it declares, and what is said of what is wrong in it."""

import io
import re
import sys
from pathlib import Path

import pytest

from replview.management.fleet.alert_overrides import OVERRIDABLE
from replview.management.fleet.declared_slot import DeclaredSlot
from replview.management.fleet.faults import FleetFaults
from replview.management.fleet.reading import parse_fleet, read_fleet

FAULTS = {
    'dsn = "x=y': "it is no TOML",
    "[[source]]": "line 1, source[1]: it has no name",
    '[[source]]\nname = "a"\ndns = "host=x"': "line 3, source[1].dns: there is no such key; did "
    "you mean dsn?",
    '[[source]]\nname = "a"\ndsn = "host=x password=SECRET"': "line 3, source[1].dsn: a password "
    "stands in it",
    '[[source]]\nname = "a"\nservice = "s"\npassword = "SECRET"': "line 4, source[1].password",
    '[[source]]\nname = "a"\nservice = "s"\n\n[[source.slot]]\nwal_budget = "1MB"': "line 6, "
    "source[1].slot[1].wal_budget: a WAL budget is at least",
    '[defaults.slot]\nwal_buget = "1GB"': "line 2, defaults.slot.wal_buget: there is no such key; "
    "did you mean wal_budget?",
    '[[source]]\nname = "a"\nservice = "s"\n[[source]]\nname = "a"\nservice = "t"': "declared "
    "twice (line 1, too)",
    '[[source]]\nname = "a"\nservice = "s"\n[[source.slot]]\npublications = ["p"]\ntables = ["t"]':
    "leave tables, except_tables and all_tables out",
    '[[source]]\n[[source]]\nname = "a"\nservice = "s"\n[[source]]\nname = "a"\nservice = "t"':
    "line 5, source[3]: a is declared twice (line 2, too)",
    "[[mask]]\nwhen = 'ingest'": "line 1, mask[1]: it would mask every column",
    '[[source]]\nname = "a"\nservice = "s"\n[[source.slot]]\noptions = { streaming = "no" }':
    "streaming = 'no' is not one of",
    "[defaults.slot]\nalerts = { lag_lok = false }": "line 2, defaults.slot.alerts: no slot has a "
    "rule lag_lok; did you mean lag_look?",
    '[defaults.slot]\nalerts = { lag_look = "5 GB" }': "line 2, defaults.slot.alerts: lag_look: "
    "threshold: Write a length of time",
    '[defaults.slot]\nalerts = { lag_look = { threshold = "1min", over = "2min" } }': "over: At "
    "most the value at which it fires",
    '[defaults.slot]\nalerts = { lag_look = { severity = "later" } }': "severity: Choose a "
    "severity: now or look",
    '[defaults.slot]\nalerts = { lag_look = { hold = 30 } }': "hold must be a text in quotes",
    '[defaults.slot]\nalerts = { lag_look = { on = "no" } }': "on must be true or false",
    '[defaults.slot]\nalerts = { poison = "1" }': "poison: there is no threshold; known "
    "are severity, on, hold, clear",
    "[defaults.slot]\nalerts = { inactive = { off = true } }": "there is no off; known are",
    "[defaults]\nslot = 3": "line 2, defaults.slot: it must be a table: [defaults.slot]",
    "source = [3]": "line 1, source: it must be an array of tables: [[source]]",
    '[defaults]\ndsn = "x"\n[[source]]\nname = "a"': "line 2, defaults.dsn: the DSN is not",
    '[defaults]\ndsn = "env:ALL"\n[[source]]\nname = "a"\npassword = { env = "SECRET" }':
    "line 5, source[1].password: the whole DSN is in that variable",
}  # fmt: skip


@pytest.mark.parametrize(("text", "why"), FAULTS.items(), ids=range(len(FAULTS)))
def test_a_fault_is_named_with_its_line_and_what_to_write(text: str, why: str) -> None:
    with pytest.raises(FleetFaults) as caught:
        parse_fleet(text)

    assert why in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_a_slot_whose_name_is_wrong_is_not_taken_for_one_without() -> None:
    text = '[[source]]\nname = "a"\nservice = "s"\n[[source.slot]]\n[[source.slot]]\nname = "B-"'
    with pytest.raises(FleetFaults) as caught:
        parse_fleet(text)

    assert [fault.line for fault in caught.value.faults] == [6]


def test_every_fault_is_reported_with_the_line_where_its_key_begins() -> None:
    text = """
        [defaults]
        dsn = "x"
        slot.wal_buget = "1GB"
        slot.adopt = 1
        [[source]]
        name = "a"
        [[source.slot]]
        tables = [
            "public.",  # both are wrong
            ".orders",
        ]
        wal_budget = "none"
        """
    with pytest.raises(FleetFaults) as caught:
        parse_fleet(text)

    assert [(fault.line, fault.key) for fault in caught.value.faults] == [
        (3, "defaults.dsn"),
        (4, "defaults.slot.wal_buget"),
        (5, "defaults.slot.adopt"),
        (9, "source[1].slot[1].tables"),
        (9, "source[1].slot[1].tables"),
        (13, "source[1].slot[1].wal_budget"),
    ]


def test_defaults_are_taken_unless_a_source_or_slot_says_otherwise() -> None:
    fleet = parse_fleet("""
        [defaults]
        dsn = "user=replview sslmode=verify-full host=one.example"
        password = { file = "/run/secrets/replview" }
        [defaults.slot]
        tables = ["public.*"]
        heartbeat = 60
        [[source]]
        name = "shop"
        dsn = "host=two.example dbname=shop"
        [[source.slot]]
        publications = ["theirs"]
        [[source]]
        name = "files"
        service = "files"
        password = { env = "FILES" }
        """)

    shop, files = fleet.sources
    assert shop.dsn == "user=replview host=two.example sslmode=verify-full dbname=shop"
    assert shop.password_ref == "file:/run/secrets/replview"
    assert (shop.slots[0].name, dict(shop.slots[0].values)) == (
        "replview",
        {"publications": ("theirs",), "heartbeat": 60},
    )
    # A service is whole: no default comes between.
    assert (files.dsn, files.password_ref) == ("service=files", "env:FILES")


DOCS = Path(__file__).parents[2] / "docs" / "your-own-database.md"


def test_the_example_of_the_documentation_can_be_read() -> None:
    example = re.findall(r"```toml\n(.*?)```", DOCS.read_text(), re.DOTALL)[0]
    fleet = parse_fleet(example)

    assert [source.name for source in fleet.sources] == ["shop-eu", "warehouse"]
    assert fleet.sources[0].slots[0].get("keep_for") == 90


def test_alerts_of_a_slot_stand_beside_those_of_the_defaults() -> None:
    fleet = parse_fleet("""
        [defaults.slot]
        alerts = { lag_look = "5min", inactive = false }
        [[source]]
        name = "shop"
        service = "shop"
        [[source.slot]]
        alerts = { lag_look = { hold = "30s", severity = "now" }, poison = "inherit" }
        """)

    assert fleet.sources[0].slots[0].get("alerts") == {
        "lag_look": {"hold_seconds": 30.0, "severity": "now"},
        "inactive": {"enabled": False},
        "poison": None,
    }


def test_every_rule_that_a_slot_may_have_its_own_of_is_documented() -> None:
    told = DOCS.read_text().split("The rules are")[1].split("([what")[0]
    assert set(re.findall(r"`(\w+)`", told)) == set(OVERRIDABLE)


def test_every_key_of_a_slot_is_documented() -> None:
    section = DOCS.read_text().split("### Keys of the file")[1]
    rows = [row for row in section.splitlines() if row.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert told == set(DeclaredSlot.model_fields)


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_input_is_read_and_not_opened(name: str, monkeypatch) -> None:
    content = io.BytesIO(b'[[source]]\nname = "a"\nservice = "s"\n')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))

    fleet = read_fleet(Path(name))

    assert (fleet.name, [source.name for source in fleet.sources]) == ("stdin", ["a"])
