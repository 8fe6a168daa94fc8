"""One statement reads what is open; nine statements replace it where it is refused."""

import dataclasses

import pytest

from replview.catalog import open_now
from replview.catalog.connections import Query, connect
from replview.catalog.holders import Holders, read_holders
from replview.catalog.open_now import read_open_now
from replview.catalog.slots import read_slot_states


def comparable(found: Holders) -> dict:
    """Return the holders without the values that change between two looks."""
    told = dataclasses.asdict(found)
    for name in ("prepared_between", "next_xid"):
        assert told.pop(name) is not None
    for slot in told["slots"].values():
        for name in ("retained_wal_bytes", "unconfirmed_wal_bytes", "catalog_xmin_age"):
            slot.pop(name)
    for row in told["running"]:
        row["xact_started_at"] = row["xact_started_at"] is not None
    return told


def test_both_ways_tell_the_same(any_shop, monkeypatch: pytest.MonkeyPatch) -> None:
    any_shop.create_slot("held")
    any_shop.run("BEGIN; INSERT INTO orders VALUES (1); PREPARE TRANSACTION 'waiting'")
    with any_shop.connect() as other, connect(any_shop.dsn) as connection:
        other.execute("BEGIN; INSERT INTO orders VALUES (2)")
        states = read_slot_states(connection)
        together = read_open_now(connection, states)
        monkeypatch.setattr(
            open_now, "OPEN_NOW", Query(name="gone", about="…", sql="SELECT %s FROM no_such, %s")
        )
        refused = read_open_now(connection, states)
        apart = read_holders(connection)

    assert comparable(together.holders) == comparable(apart) == comparable(refused.holders)
    assert together.running == refused.running >= 1
    assert together.prepared == refused.prepared >= 1
    assert together.oldest_prepared_seconds >= 0
    assert (together.subscriptions, refused.subscriptions) == (0, None)
    before, after = together.holders.prepared_between
    assert states.current_lsn == before <= after
