"""A message that cannot be stored or decoded stops its slot until somebody decides about it."""

from typing import Any

import pytest

from tests.crashes.truth import assert_true_record
from tests.support.crash_servers import Receive
from tests.support.proxy import Proxy
from tests.support.received_slots import ReceivedSlot
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quick_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that waits for a decision looks, and says that it is alive, so often."""
    monkeypatch.setenv("REPLVIEW_HEARTBEAT_SECONDS", "0.25")


REFUSES = "ALTER TABLE change ADD CONSTRAINT poison CHECK (new ->> 'filler' IS DISTINCT FROM 'bad')"
ACCEPTS = "ALTER TABLE change DROP CONSTRAINT poison"


def _quarantined(slot: ReceivedSlot) -> dict[str, Any]:
    """The row of what stopped the slot."""
    query = "SELECT * FROM quarantine WHERE slot_id = %s AND settled_at IS NULL"
    found = wait_for(
        lambda: slot.store.rows(query, [slot.slot_id]), what=f"quarantined\n{slot.sentences()}"
    )
    assert len(found) == 1
    wait_for(lambda: slot.row()["problem_code"] == "quarantined")
    return found[0]


def _decide(slot: ReceivedSlot, found: dict[str, Any], decision: str) -> None:
    """Store a decision as ``store.quarantine.decide`` does for the page and the command."""
    slot.store.run(
        "UPDATE quarantine SET decision = %s, decided_by = 'the auditor', decided_at = now() "
        "WHERE id = %s",
        [decision, found["id"]],
    )


def _stands_still(slot: ReceivedSlot) -> None:
    """No loop: while the receiver says several times that it is alive, nobody connects, nothing is
    confirmed, nothing more is written down.
    """
    before = (len(slot.events()), slot.confirmed_lsn(), slot.stored_lsn())
    for _ in range(5):
        heartbeat = slot.row()["heartbeat_at"]
        wait_for(lambda heartbeat=heartbeat: slot.row()["heartbeat_at"] != heartbeat)
    assert (len(slot.events()), slot.confirmed_lsn(), slot.stored_lsn()) == before


def _poisoned(source: SourceDatabase, receive: Receive) -> tuple[ReceivedSlot, dict[str, Any]]:
    """A slot that stopped before the second of three transactions."""
    slot = receive(source)
    slot.store.run(REFUSES)
    source.run("INSERT INTO t VALUES (1, 1, 'good')")
    slot.caught_up()
    source.run(
        "BEGIN; INSERT INTO t VALUES (2, 2, 'of the same transaction');"
        "INSERT INTO t VALUES (3, 3, 'bad'); COMMIT",
        "INSERT INTO t VALUES (4, 4, 'good')",
    )
    return slot, _quarantined(slot)


def test_a_change_the_store_refuses_stops_the_slot_and_is_kept(
    source: SourceDatabase, receive: Receive
) -> None:
    slot, found = _poisoned(source, receive)

    assert (found["relation"], found["tag"]) == ("public.t", "I")
    assert found["lsn"]
    assert found["remedy"]
    assert bytes(found["raw"]).endswith(b"bad")
    assert "bad" not in found["cause"]
    assert slot.row()["state"] == "failed"
    assert [t["inserts"] for t in slot.transactions("committed")] == [1]
    slot.says("public.t", "stopped")
    _stands_still(slot)


def test_after_a_skip_all_else_is_there_and_the_transaction_is_recorded_as_skipped(
    source: SourceDatabase, receive: Receive
) -> None:
    slot, found = _poisoned(source, receive)
    _decide(slot, found, "skip")
    slot.caught_up()

    places = [
        (t["commit_seq"], t["state"]) for t in slot.transactions() if t["state"] != "discarded"
    ]
    assert places == [(1, "committed"), (2, "skipped"), (3, "committed")]
    [skipped] = slot.transactions("skipped")
    assert skipped["xid"] == found["xid"]
    slot.says("the auditor")
    assert slot.row()["state"] == "streaming"


def test_a_retry_once_the_cause_is_mended_stores_everything(
    source: SourceDatabase, receive: Receive
) -> None:
    slot, found = _poisoned(source, receive)
    slot.store.run(ACCEPTS)
    # Killed and started anew, it still waits for the decision.
    slot.receivers[0].kill()
    slot.free_lease()
    slot.start("second")
    wait_for(lambda: slot.row()["lease_owner"] == "second")
    _stands_still(slot)
    _decide(slot, found, "retry")
    slot.caught_up()

    assert_true_record(slot)
    assert [t["inserts"] for t in slot.transactions("committed")] == [1, 2, 1]


def test_a_retry_while_the_cause_is_there_stops_at_the_same_change_again(
    source: SourceDatabase, receive: Receive
) -> None:
    slot, found = _poisoned(source, receive)
    _decide(slot, found, "retry")
    wait_for(lambda: slot.events("retried"))
    again = _quarantined(slot)

    assert again["id"] != found["id"]
    assert (again["xid"], again["raw"]) == (found["xid"], found["raw"])
    _stands_still(slot)


def test_a_message_that_does_not_decode_stops_the_slot_until_it_is_skipped(
    source: SourceDatabase, receive: Receive
) -> None:
    def corrupt(chunk: bytes) -> bytes:
        # The kind of the new tuple, just before the count of its columns, the first of them "66".
        return chunk.replace(b"N\0\x03t\0\0\0\x0266", b"?\0\x03t\0\0\0\x0266")

    with Proxy(source.server.port) as proxy:
        slot = receive(source, dsn=proxy.dsn(source.dsn))
        proxy.to_client.rewrite = corrupt
        source.run(
            "INSERT INTO t VALUES (1, 1, '')",
            "INSERT INTO t VALUES (66, 6, '')",
            "INSERT INTO t VALUES (3, 3, '')",
        )
        found = _quarantined(slot)
        assert found["tag"] == "I"
        assert b"?\0\x03t" in bytes(found["raw"])
        _stands_still(slot)
        _decide(slot, found, "skip")
        slot.caught_up()

        states = [t["state"] for t in slot.transactions() if t["state"] != "discarded"]
        assert states == ["committed", "skipped", "committed"]
        slot.end()
