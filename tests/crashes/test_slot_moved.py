"""A slot that somebody else advances, drops, makes anew, or that is on another cluster now."""

from collections.abc import Iterator

import psycopg
import pytest

from replview.runtime.servers.postgres import EmbeddedPostgres
from tests.support.crash_servers import Receive, fresh_source
from tests.support.received_slots import ReceivedSlot, create_slot
from tests.support.source_databases import SOURCE_SETTINGS, SourceDatabase
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow
#: Runs the periodic work that beat gives to the workers.
LOOK = """
from tests.support.sampling import sample_source
from replview.store.retention.tidy import give_up_lost_ends
from replview.store.models import Source
give_up_lost_ends()
sample_source(Source.objects.get())
"""
PREPARE = "BEGIN; INSERT INTO t VALUES (2, 2, ''); PREPARE TRANSACTION 'waiting'"


@pytest.fixture
def other_source() -> Iterator[SourceDatabase]:
    """The same database on another cluster."""
    with EmbeddedPostgres.temporary(settings=SOURCE_SETTINGS) as server:
        yield from fresh_source(server)


def _with_one_prepared(source: SourceDatabase, receive: Receive) -> ReceivedSlot:
    """A slot with a committed transaction and a prepared one, whose receiver is stopped."""
    slot = receive(source)
    source.run("INSERT INTO t VALUES (1, 1, '')", PREPARE)
    wait_for(lambda: slot.transactions("prepared"))
    slot.caught_up()
    slot.end()
    return slot


def _gap(slot: ReceivedSlot) -> dict[str, str]:
    """Assert that the slot's log has one gap, with both ends, and return the gap's detail."""
    [event] = slot.events("gap")
    assert event["message"].endswith(".")
    detail = event["detail"]
    assert detail["from_lsn"]
    assert detail["to_lsn"]
    return detail


def _incarnations(slot: ReceivedSlot) -> list[str]:
    return [incarnation["reason"] for incarnation in slot.incarnations()]


def test_a_slot_advanced_by_somebody_else_leaves_a_gap_and_ends_what_was_prepared(
    source: SourceDatabase, receive: Receive
) -> None:
    slot = _with_one_prepared(source, receive)
    before = slot.row()["checkpoint"]
    source.run(
        "INSERT INTO t VALUES (3, 3, 'in the gap')",
        f"SELECT pg_replication_slot_advance('{slot.name}', pg_current_wal_lsn())",
        "COMMIT PREPARED 'waiting'",
        "INSERT INTO t VALUES (4, 4, 'after it')",
    )
    slot.start("second")
    slot.streaming("second")
    slot.caught_up()

    assert _incarnations(slot) == ["created", "advanced"]
    detail = _gap(slot)
    assert detail["from_lsn"] == before
    assert detail["to_lsn"] == slot.incarnations()[1]["started"]
    assert slot.transactions("prepared") == []
    second = [t for t in slot.transactions("committed") if t["incarnation"] == 2]
    assert [(t["commit_seq"], t["gid"], t["inserts"]) for t in second] == [
        (1, "waiting", 1),
        (2, None, 1),
    ]


def test_a_slot_dropped_and_made_anew_leaves_a_gap_and_nothing_prepared_for_ever(
    source: SourceDatabase, receive: Receive
) -> None:
    slot = _with_one_prepared(source, receive)
    source.run(
        f"SELECT pg_drop_replication_slot('{slot.name}')",
        "ROLLBACK PREPARED 'waiting'",
        "INSERT INTO t VALUES (3, 3, 'in the gap')",
    )
    with source.connect() as session:
        create_slot(session, slot.name, two_phase=True)
    slot.start("second")
    slot.streaming("second")
    source.run("INSERT INTO t VALUES (4, 4, 'after it')")
    slot.caught_up()

    assert len(slot.incarnations()) == 2
    _gap(slot)
    committed = slot.transactions("committed")
    assert [(t["incarnation"], t["commit_seq"]) for t in committed] == [(1, 1), (2, 1)]
    # Its end was in the gap, and no stream will ever tell it: the source is asked.
    slot.store.in_django(LOOK)
    source.run("INSERT INTO t VALUES (5, 5, 'after the look')")
    slot.caught_up()
    slot.store.in_django(LOOK)
    assert slot.transactions("prepared") == []
    assert [t["gid"] for t in slot.transactions("unknown")] == ["waiting"]


def test_a_slot_that_is_missing_is_named_and_received_once_it_is_there_again(
    source: SourceDatabase, receive: Receive
) -> None:
    slot = _with_one_prepared(source, receive)
    source.run(f"SELECT pg_drop_replication_slot('{slot.name}')", "COMMIT PREPARED 'waiting'")
    slot.start("second")
    wait_for(lambda: slot.row()["problem_code"] == "slot_missing", what=slot.sentences())

    assert slot.row()["state"] == "failed"
    slot.says("is gone from the source")


def test_a_source_that_is_another_cluster_now_begins_a_new_record(
    source: SourceDatabase, receive: Receive, other_source: SourceDatabase
) -> None:
    slot = _with_one_prepared(source, receive)
    with other_source.connect() as session:
        session.execute(f"CREATE PUBLICATION {slot.name} FOR ALL TABLES")
        create_slot(session, slot.name, two_phase=True)
    slot.point_at(other_source)
    slot.start("second")
    slot.streaming("second")
    other_source.run("INSERT INTO t VALUES (7, 7, 'of the other')")
    slot.caught_up()

    assert _incarnations(slot) == ["created", "re-pointed"]
    _gap(slot)
    first, second = slot.incarnations()
    assert first["system_identifier"] != second["system_identifier"]
    assert slot.transactions("prepared") == []
    assert [t["gid"] for t in slot.transactions("unknown")] == ["waiting"]
    assert [(t["incarnation"], t["commit_seq"]) for t in slot.transactions("committed")] == [
        (1, 1),
        (2, 1),
    ]


def test_moving_a_slot_while_it_is_received_is_refused_by_the_server(
    source: SourceDatabase, receive: Receive
) -> None:
    slot = receive(source)
    for function in ("pg_drop_replication_slot({})", "pg_replication_slot_advance({}, '7/0')"):
        with pytest.raises(psycopg.errors.ObjectInUse):
            source.run("SELECT " + function.format(f"'{slot.name}'"))
    source.run("INSERT INTO t VALUES (1, 1, '')")
    slot.caught_up()

    assert len(slot.incarnations()) == 1
