"""A change that cannot be stored stops its slot until a named account decides about it."""

import psycopg
import pytest
from django.db import connection

from replview.store.models import Quarantine, SlotEvent, Transaction
from replview.store.quarantine import decide, open_quarantine
from tests.support.recording import Recording
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

#: Each takes its seconds; make test runs them all.
pytestmark = pytest.mark.slow

TABLE = "CREATE TABLE t (n int PRIMARY KEY, v text)"


@pytest.fixture
def picky_store(transactional_db):
    """A store that refuses the value ``poison``, as a limit of its own would."""

    def refuse(on: bool) -> None:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE change DROP CONSTRAINT IF EXISTS picky")
            if on:
                cursor.execute(
                    "ALTER TABLE change ADD CONSTRAINT picky CHECK "
                    "(coalesce(new->>'v', new->>'prefix') <> 'poison')"
                )

    refuse(True)
    yield refuse
    refuse(False)


def quarantined(recording: Recording) -> Quarantine:
    """Wait until the slot has stopped; what stopped it."""
    recording.problem("quarantined")
    found = open_quarantine(recording.slot)
    assert found is not None
    return found


def values(recording: Recording) -> list[str]:
    """The values stored, in the order of history."""
    rows = recording.transactions(commit_seq__isnull=False)
    return [change.new["v"] for row in rows for change in recording.changes(row)]


def test_it_stops_the_slot_and_names_the_change(source: SourceDatabase, record, picky_store):
    source.run(TABLE)
    recording = record(source)
    source.run(
        "INSERT INTO t VALUES (1, 'good')",
        "BEGIN; INSERT INTO t VALUES (2, 'good too'), (3, 'poison'), (4, 'x'); COMMIT",
        "INSERT INTO t VALUES (5, 'later')",
    )

    found = quarantined(recording)

    recording.slot.refresh_from_db()
    assert recording.slot.state == "failed"
    assert found.relation == "public.t"
    assert "public.t" in found.cause
    assert "poison" not in found.cause
    assert found.lsn is not None
    assert str(found.lsn) in found.cause
    assert b"poison" in bytes(Quarantine.objects.get(pk=found.pk).raw)
    assert found.tag == "I"
    assert "quarantined" in events(recording)
    # All that stands before it is in the record, nothing after it.
    assert values(recording) == ["good"]


def events(recording: Recording) -> list[str]:
    rows = SlotEvent.objects.filter(slot=recording.slot).order_by("id")
    return list(rows.values_list("kind", flat=True))


def test_it_is_not_tried_over_and_over(source: SourceDatabase, record, picky_store):
    source.run(TABLE)
    recording = record(source)
    source.run("INSERT INTO t VALUES (3, 'poison')")
    quarantined(recording)
    before = events(recording)
    # Nor by the receiver that comes next.
    recording.end()
    recording.start()
    recording.problem("quarantined")

    assert Quarantine.objects.count() == 1
    assert [kind for kind in events(recording) if kind == "connected"] == [
        kind for kind in before if kind == "connected"
    ]


def test_trying_again_receives_it_once_the_cause_is_mended(
    source: SourceDatabase, record, picky_store
):
    source.run(TABLE)
    recording = record(source)
    source.run("INSERT INTO t VALUES (1, 'poison')", "INSERT INTO t VALUES (2, 'later')")
    found = quarantined(recording)
    picky_store(False)

    assert decide(found.pk, "retry", "alice")
    recording.caught_up()

    assert values(recording) == ["poison", "later"]
    found.refresh_from_db()
    assert found.settled_at is not None
    assert "retried" in events(recording)
    recording.slot.refresh_from_db()
    assert recording.slot.problem_code == ""


def test_skipping_leaves_out_that_transaction_and_nothing_else(
    source: SourceDatabase, record, picky_store
):
    source.run(TABLE)
    recording = record(source)
    source.run(
        "INSERT INTO t VALUES (1, 'before')",
        "BEGIN; INSERT INTO t VALUES (2, 'with it'), (3, 'poison'); COMMIT",
        "INSERT INTO t VALUES (5, 'later')",
    )
    found = quarantined(recording)

    assert decide(found.pk, "skip", "alice")
    recording.caught_up()

    assert values(recording) == ["before", "later"]
    [skipped] = recording.transactions(state="skipped")
    assert skipped.xid == found.xid
    assert skipped.commit_seq == 2
    assert skipped.context["$skipped"]["by"] == "alice"
    assert "skipped" in events(recording)
    found.refresh_from_db()
    assert found.settled_at is not None


@pytest.mark.pg(14)
def test_a_message_outside_any_transaction_is_kept_too_and_can_be_left_out(
    source: SourceDatabase, record, picky_store
):
    source.run(TABLE)
    recording = record(source)
    source.run(
        "INSERT INTO t VALUES (1, 'before')",
        "SELECT pg_logical_emit_message(false, 'app', '{\"v\": 1}')",
        "SELECT pg_logical_emit_message(false, 'poison', 'x')",
        "INSERT INTO t VALUES (5, 'later')",
    )
    found = quarantined(recording)
    assert (found.xid, found.tag, found.relation) == (None, "M", "")
    assert b"poison" in bytes(Quarantine.objects.get(pk=found.pk).raw)
    # All messages before the quarantined one are in the record.
    wait_for(lambda: recording.transactions(commit_seq=2))
    assert [row.state for row in recording.transactions()] == ["committed", "message"]

    decide(found.pk, "skip", "alice")
    recording.caught_up()

    states = [row.state for row in recording.transactions()]
    assert states == ["committed", "message", "skipped", "committed"]
    assert Quarantine.objects.count() == 1
    found.refresh_from_db()
    assert found.settled_at is not None


@pytest.mark.pg(14)
def test_a_transaction_of_which_nothing_is_left_is_in_the_record_all_the_same(
    source: SourceDatabase, record, picky_store
):
    source.run(TABLE)
    recording = record(source)
    source.run(
        "SELECT pg_logical_emit_message(true, 'poison', 'x')", "INSERT INTO t VALUES (5, 'later')"
    )
    found = quarantined(recording)

    decide(found.pk, "skip", "alice")
    recording.caught_up()

    assert [row.state for row in recording.transactions()] == ["skipped", "committed"]
    found.refresh_from_db()
    assert found.settled_at is not None


@pytest.mark.pg(14)
def test_a_streamed_transaction_can_be_left_out(source: SourceDatabase, record, picky_store):
    source.run(TABLE)
    recording = record(source)
    source.run(
        "BEGIN; INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 2000) i;"
        "INSERT INTO t VALUES (0, 'poison'); COMMIT",
        "INSERT INTO t VALUES (-1, 'later')",
    )
    found = quarantined(recording)

    decide(found.pk, "skip", "alice")
    recording.caught_up()

    assert values(recording) == ["later"]
    assert Transaction.objects.filter(state="skipped", streamed=True).count() == 1


@pytest.mark.pg(15)
def test_a_prepared_transaction_can_be_left_out(source: SourceDatabase, record, picky_store):
    source.run(TABLE)
    recording = record(source)
    source.run("BEGIN; INSERT INTO t VALUES (1, 'poison'); PREPARE TRANSACTION 'p'")
    found = quarantined(recording)
    assert found.gid == "p"

    decide(found.pk, "skip", "alice")
    wait_for(lambda: recording.transactions(state="prepared"))
    source.run("COMMIT PREPARED 'p'", "INSERT INTO t VALUES (2, 'later')")
    recording.caught_up()

    assert values(recording) == ["later"]
    [skipped] = recording.transactions(state="skipped")
    assert skipped.gid == "p"


def test_what_cannot_be_read_is_asked_for_once_more_and_then_kept(
    source: SourceDatabase, record, monkeypatch
):
    """A message whose bytes are not what the protocol allows, every time it is sent."""
    from replview.receiver.sessions.walsender import ReplicationSession

    source.run(TABLE)
    read = ReplicationSession.read

    def spoiled(self, max_frames: int, max_bytes: int) -> list[bytes]:
        return [
            frame.replace(b"t\0\0\0\x05wrong", b"z\0\0\0\x05wrong")
            for frame in read(self, max_frames, max_bytes)
        ]

    monkeypatch.setattr(ReplicationSession, "read", spoiled)
    recording = record(source)
    with source.connect() as session:
        session.execute("INSERT INTO t VALUES (1, 'right')")
        row = session.execute(
            "WITH w AS (INSERT INTO t VALUES (2, 'wrong')) SELECT txid_current()::text"
        ).fetchone()
        session.execute("INSERT INTO t VALUES (3, 'later')")
    found = quarantined(recording)
    assert (found.xid, found.relation, found.tag) == (int(row[0]), "public.t", "I")

    decide(found.pk, "skip", "alice")
    recording.caught_up()

    assert values(recording) == ["right", "later"]
    [skipped] = recording.transactions(state="skipped")
    assert skipped.xid == found.xid


def test_only_the_first_decision_counts(source: SourceDatabase, record, picky_store):
    source.run(TABLE)
    recording = record(source)
    source.run("INSERT INTO t VALUES (3, 'poison')")
    found = quarantined(recording)

    assert decide(found.pk, "skip", "alice")
    assert not decide(found.pk, "retry", "bob")


def test_nothing_after_it_is_confirmed(source: SourceDatabase, record, picky_store):
    source.run(TABLE)
    recording = record(source)
    recording.caught_up()
    source.run("INSERT INTO t VALUES (3, 'poison')")
    found = quarantined(recording)

    with source.connect() as session, psycopg.ClientCursor(session) as cursor:
        cursor.execute(
            "SELECT confirmed_flush_lsn < %s FROM pg_replication_slots WHERE slot_name = %s",
            [str(found.final_lsn), recording.slot.name],
        )
        assert cursor.fetchone() == (True,)
