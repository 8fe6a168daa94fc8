"""A prepared transaction whose end fell into a gap does not stay prepared for ever."""

import pytest

from replview.store.models import SlotEvent, Source, Transition
from replview.store.retention.tidy import give_up_lost_ends
from tests.support.recording import Recording
from tests.support.sampling import sample_source
from tests.support.source_databases import SourceDatabase

#: Each takes its seconds; make test runs them all.
pytestmark = pytest.mark.slow

TABLE = "CREATE TABLE t (n int PRIMARY KEY)"


def look(recording: Recording) -> None:
    """Look at the source as sampling does."""
    Source.objects.update(conninfo=recording.source.dsn)
    assert sample_source(Source.objects.get()) is None


@pytest.mark.pg(15)
def test_its_end_is_unknown_once_all_up_to_the_look_was_received(
    any_source: SourceDatabase, record
) -> None:
    any_source.run(TABLE)
    recording = record(any_source)
    any_source.run(
        "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'lost'",
        "BEGIN; INSERT INTO t VALUES (2); PREPARE TRANSACTION 'waits'",
    )
    recording.caught_up()
    recording.end()
    any_source.run("ROLLBACK PREPARED 'lost'")
    with any_source.connect() as session:
        session.execute(
            "SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", [recording.slot.name]
        )
    recording.start()
    recording.streaming()
    look(recording)
    any_source.run("INSERT INTO t VALUES (3)")
    recording.caught_up()

    assert give_up_lost_ends() == 1

    [lost] = recording.transactions(state="unknown")
    assert lost.gid == "lost"
    last = Transition.objects.filter(transaction_id=lost.pk).latest("id")
    assert last.state == "unknown"
    assert [row.gid for row in recording.transactions(state="prepared")] == ["waits"]
    assert SlotEvent.objects.get(kind="lost_end").detail["transaction"] == lost.pk
    assert give_up_lost_ends() == 0


@pytest.mark.pg(15)
def test_one_whose_end_is_still_to_be_received_waits(source: SourceDatabase, record) -> None:
    source.run(TABLE)
    recording = record(source)
    source.run("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'")
    recording.caught_up()
    recording.end()
    source.run("COMMIT PREPARED 'p'")
    look(recording)

    assert give_up_lost_ends() == 0
    recording.start()
    recording.streaming()
    recording.caught_up()

    [row] = recording.transactions(gid="p")
    assert row.state == "committed"
    assert give_up_lost_ends() == 0


@pytest.mark.pg(15)
def test_one_prepared_since_the_look_waits(source: SourceDatabase, record) -> None:
    source.run(TABLE)
    recording = record(source)
    look(recording)
    source.run("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'")
    recording.caught_up()

    assert give_up_lost_ends() == 0
