"""``replview slot peek``."""

import json

import pytest
from django.core.management.base import CommandError

from replview.features.peeks.text import PeekResult
from replview.management.slot_peek import found_lines


@pytest.fixture
def peekable(registered, shop) -> None:
    """A slot of others with one transaction waiting."""
    shop.run(
        "CREATE PUBLICATION p FOR ALL TABLES",
        "SELECT pg_create_logical_replication_slot('theirs', 'pgoutput')",
        "INSERT INTO orders SELECT n, 'pending' FROM generate_series(1, 5) AS n",
    )


def test_the_cost_is_said_before_anything_is_done(run, peekable) -> None:
    with pytest.raises(CommandError, match="--yes"):
        run("slot", "peek", "shop", "theirs")
    with pytest.raises(CommandError, match=r"from restart_lsn .* --yes"):
        run("slot", "peek", "shop", "theirs", "--format", "json")


def test_it_tells_what_waits_and_leaves_the_slot_where_it_is(run, peekable, shop) -> None:
    position = "SELECT restart_lsn, confirmed_flush_lsn FROM pg_replication_slots"
    with shop.connect() as connection:
        before = connection.execute(f"{position} WHERE slot_name = 'theirs'").fetchone()

    text = run("slot", "peek", "shop", "theirs", "--yes")
    assert text.startswith("PostgreSQL decodes ")
    assert "up to 15 seconds" in text
    assert "1 transaction waits. 5 changes in 1 table" in text
    assert "public.orders  5 I" in text
    result = json.loads(run("slot", "peek", "shop", "theirs", "--yes", "--format", "json"))
    assert (result["transactions"], result["changes"], result["complete"]) == (1, 5, True)
    with shop.connect() as connection:
        after = connection.execute(f"{position} WHERE slot_name = 'theirs'").fetchone()
    assert after == before


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["nobody"], "has no slot nobody; it has: .*theirs"),
        (["theirs", "--publication", "gone"], "has no publication gone; it has: p"),
        (["theirs", "--changes", "0"], "at least 1"),
    ],
)
def test_what_cannot_be_is_refused(run, peekable, words: list[str], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        run("slot", "peek", "shop", *words, "--yes")


def test_an_active_slot_is_not_looked_into(run, registered, shop) -> None:
    shop.run("SELECT pg_create_physical_replication_slot('standby_x')")
    try:
        with pytest.raises(CommandError, match="slot standby_x cannot be peeked: a physical"):
            run("slot", "peek", "shop", "standby_x", "--yes")
    finally:
        shop.run("SELECT pg_drop_replication_slot('standby_x')")


def test_what_was_found_is_told_with_its_bound_and_what_is_unknown() -> None:
    found = PeekResult(
        {
            "complete": False, "stopped_by": "seconds", "seconds": 5.02, "transactions": 2,
            "changes": 7, "until_lsn": "0/1F0",
            "tables": [{"table": "public.t", "inserts": 7}],
            "listed": [{"xid": 757, "state": "committed", "changes": None, "bytes": 84,
                        "commit_time": "2026-11-20T07:57:11Z", "tables": ["public.t"]}],
            "unknown": ["sizes of transactions"],
        }
    )  # fmt: skip
    text = "\n".join(found_lines(found, 1000, 5))

    assert "At least 2 transactions wait." in text
    assert "its limit of 5\xa0s at 0/1F0" in text
    assert "public.t  7 I" in text
    assert "XID OR GID" in text
    assert "757         committed" in text
    assert "unknown  84\xa0B  public.t" in text
    assert "unknown: sizes of transactions" in text
