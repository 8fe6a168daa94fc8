"""The SQL interface reads in portions, reads open streams anew, and notices other readers."""

import threading
import time
from contextlib import suppress
from functools import partial

import psycopg
import pytest

from decoder.scalars import LSN
from replview.receiver.sessions import pacing
from replview.store.connecting import connect_store
from replview.store.models import Transaction, Transition
from tests.support.pooler import pooler
from tests.support.recording import Recording
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

#: Each takes its seconds; make test runs them all.
pytestmark = pytest.mark.slow

TABLE = "CREATE TABLE t (n int PRIMARY KEY, filler text)"
ROWS = "INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series({}, {}) n"


@pytest.fixture
def record(record):
    """Slots of the SQL interface."""
    return partial(record, interface="sql")


def _confirmed(recording: Recording) -> LSN:
    with recording.source.connect() as connection:
        [text] = connection.execute(
            "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s",
            [recording.slot.name],
        ).fetchone()
    return LSN.parse(text)


def _shown(recording: Recording) -> list[Transaction]:
    """Return the transactions that the in-flight page shows."""
    found = recording.transactions(state__in=["receiving", "streaming", "prepared"])
    return [t for t in found if not (t.state == "receiving" and t.streamed)]


def test_a_lone_commit_is_seen_at_the_next_look(
    source: SourceDatabase, record, monkeypatch
) -> None:
    looks: list[str] = []
    pauses: list[float] = []
    nothing_new, begin = pacing.Pacing.nothing_new, pacing.Pacing.begin

    def noting_nothing(self: pacing.Pacing) -> None:
        nothing_new(self)
        pauses.append(self.seconds_to_next())
        looks.append("nothing")

    def noting_peek(self: pacing.Pacing, *, light: bool) -> int:
        looks.append("peek")
        return begin(self, light=light)

    monkeypatch.setattr(pacing.Pacing, "nothing_new", noting_nothing)
    monkeypatch.setattr(pacing.Pacing, "begin", noting_peek)
    source.run(TABLE)
    recording = record(source)
    recording.caught_up()
    wait_for(lambda: len(pauses) >= 4)

    seen = len(looks)
    source.run(ROWS.format(1, 1))
    wait_for(lambda: recording.transactions(state="committed"))

    # One look may have been under way when it was committed.
    assert looks[seen:].index("peek") <= 1
    assert max(pauses) <= pacing.LONGEST_SECONDS <= 1.0


def test_a_backlog_comes_in_portions_whole_in_order_and_once(
    any_source: SourceDatabase, record, monkeypatch
) -> None:
    monkeypatch.setattr(pacing, "FIRST_CHANGES", 20)
    monkeypatch.setattr(pacing, "MOST_CHANGES", 40)
    any_source.run(TABLE)
    recording = record(any_source, start=False)
    any_source.run(*[ROWS.format(n * 10, n * 10 + n % 7) for n in range(60)])
    recording.start()
    recording.caught_up()

    stored = recording.transactions()
    assert [t.commit_seq for t in stored] == list(range(1, 61))
    assert [t.inserts for t in stored] == [n % 7 + 1 for n in range(60)]


@pytest.mark.pg(14)
@pytest.mark.slow
def test_an_open_stream_is_shown_once_and_never_shrinks_while_it_comes_anew(
    any_source: SourceDatabase, record, monkeypatch
) -> None:
    monkeypatch.setattr(pacing, "FULL_SECONDS", 0.1)
    monkeypatch.setattr(pacing, "FULL_PAUSES", 0.1)
    any_source.run(TABLE)
    recording = record(any_source)
    seen: list[tuple[int, int]] = []
    begun = set()
    with any_source.connect() as session:
        session.execute("BEGIN")
        for first in range(0, 16_000, 2_000):
            session.execute(ROWS.format(first, first + 1_999))
            until = time.monotonic() + 0.5
            # The last rows wait for another look, however busy the machine.
            last = first == 14_000
            while time.monotonic() < until or (last and len({pk for pk, _ in seen}) < 2):
                assert time.monotonic() < until + 60, "it was received more than once"
                shown = _shown(recording)
                assert len(shown) <= 1
                for transaction in shown:
                    seen.append((transaction.pk, transaction.inserts))
                    begun.add(transaction.received_at)
                time.sleep(0.02)
        session.execute("COMMIT")
    recording.caught_up()

    counts = [inserts for _, inserts in seen]
    assert counts == sorted(counts)
    assert len(begun) == 1, "it is known since the same moment"
    [committed] = recording.transactions()
    assert (committed.state, committed.inserts) == ("committed", 16_000)
    assert committed.received_at in begun
    rows = [change.new["n"] for change in recording.changes(committed)]
    assert rows == [str(n) for n in range(16_000)]


@pytest.mark.pg(14)
@pytest.mark.slow
def test_a_stream_that_aborts_between_two_peeks_is_recorded_so_once(
    any_source: SourceDatabase, record
) -> None:
    any_source.run(TABLE)
    recording = record(any_source)
    with any_source.connect() as session:
        session.execute("BEGIN")
        session.execute(ROWS.format(1, 5000))
        [streaming] = wait_for(lambda: recording.transactions(state="streaming", inserts__gt=4000))
        # The slot goes beyond what was streamed: the server would not send it again by itself.
        any_source.run(*[ROWS.format(n, n) for n in range(-5, 0)])
        wait_for(lambda: _confirmed(recording) > streaming.first_lsn)
        session.execute("ROLLBACK")
    [aborted] = wait_for(lambda: recording.transactions(state="aborted"))
    any_source.run(ROWS.format(-9, -9))
    recording.caught_up()

    assert aborted.inserts >= streaming.inserts > 4000
    assert [t.state for t in recording.transactions()] == ["committed"] * 6 + ["aborted"]
    states = Transition.objects.filter(transaction_id=aborted.pk).values_list("state", flat=True)
    assert list(states.order_by("id")) == ["streaming", "aborted"]
    assert not _shown(recording)


@pytest.mark.pg(14)
def test_a_large_transaction_that_commits_while_left_out_on_the_server_replaces_what_was_shown(
    source: SourceDatabase, record, monkeypatch
) -> None:
    monkeypatch.setattr(pacing, "FULL_SECONDS", 60.0)
    source.run(TABLE)
    recording = record(source)
    with source.connect() as session:
        session.execute("BEGIN")
        session.execute(ROWS.format(1, 3000))
        wait_for(lambda: recording.transactions(state="streaming"))
        session.execute(ROWS.format(3001, 6000))
        source.run(ROWS.format(-1, -1))
        wait_for(lambda: recording.transactions(state="committed"))
        assert len(_shown(recording)) == 1
        session.execute("COMMIT")
    recording.caught_up()

    small, large = recording.transactions()
    assert (small.inserts, large.inserts, large.streamed) == (1, 6000, True)
    assert len(recording.changes(large)) == 6000


def test_what_another_reader_took_is_a_gap_that_is_named(source: SourceDatabase, record) -> None:
    source.run(TABLE)
    recording = record(source)
    recording.caught_up()
    with connect_store() as blocker:
        blocker.execute("BEGIN")
        blocker.execute("SELECT FROM slot WHERE id = %s FOR UPDATE", [recording.slot.pk])
        source.run(
            ROWS.format(1, 10),
            f"SELECT count(*) FROM pg_logical_slot_get_binary_changes('{recording.slot.name}', "
            f"NULL, NULL, 'proto_version', '1', 'publication_names', '{recording.slot.name}')",
            ROWS.format(11, 11),
            f"SELECT pg_replication_slot_advance('{recording.slot.name}', "
            "pg_current_wal_flush_lsn())",
        )
        blocker.execute("ROLLBACK")

    wait_for(lambda: recording.slot.events.filter(kind="gap").exists())
    codes = [event.detail.get("code") for event in recording.slot.events.all()]
    assert "slot_consumed" in codes
    source.run(ROWS.format(12, 12))
    wait_for(lambda: recording.transactions(incarnation__number=2))


@pytest.mark.slow
def test_of_two_pollers_only_the_holder_of_the_lease_stores(source: SourceDatabase, record) -> None:
    source.run(TABLE)
    recording = record(source)
    recording.caught_up()
    # The state after a network partition: the first receiver still reads, its lease is taken.
    type(recording.slot).objects.filter(pk=recording.slot.pk).update(lease_owner="")
    stop = threading.Event()

    def write() -> None:
        for number in range(200):
            if stop.is_set():
                return
            source.run(ROWS.format(number, number))

    def is_taken() -> bool:
        """A row that the first is just writing is left alone: it is tried again, as workers do."""
        recording.slot.refresh_from_db()
        if recording.slot.lease_owner != "second" and not recording.threads[-1].is_alive():
            recording.start("second")
        return recording.slot.lease_owner == "second"

    writing = threading.Thread(target=write)
    writing.start()
    first = recording.threads[0]
    recording.start("second")
    wait_for(is_taken)
    writing.join()
    wait_for(lambda: not first.is_alive())
    recording.caught_up()

    stored = recording.transactions(state="committed")
    assert [t.commit_seq for t in stored] == list(range(1, 201))
    assert len({recording.changes(t)[0].new["n"] for t in stored}) == 200


def test_a_backend_killed_in_the_middle_of_a_portion_costs_nothing(
    source: SourceDatabase, record
) -> None:
    source.run(TABLE)
    recording = record(source, start=False)
    source.run(ROWS.format(1, 30_000), *[ROWS.format(-n, -n) for n in range(1, 20)])
    recording.start()
    kill = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND query LIKE '/* replview: peek%' AND state = 'active'"
    )
    with source.connect() as session:
        for _ in range(3):
            # Decoded, it sends the rows: nothing but the server's own time says so.
            assert wait_for(lambda: session.execute(kill).fetchall())
    recording.caught_up()

    stored = recording.transactions()
    assert [t.commit_seq for t in stored] == list(range(1, 21))
    assert [t.inserts for t in stored] == [30_000] + [1] * 19
    assert len(recording.changes(stored[0])) == 30_000


def test_everything_works_through_a_pooler_in_transaction_mode(
    source: SourceDatabase, record
) -> None:
    source.run(TABLE, "ALTER TABLE t REPLICA IDENTITY FULL")
    recording = record(source, start=False)
    with pooler(source, pool_size=2) as dsn:
        recording.dsn = dsn
        recording.start()
        recording.streaming()
        source.run(
            "BEGIN; " + ROWS.format(1, 3000) + "; PREPARE TRANSACTION 'pooled'",
            "COMMIT PREPARED 'pooled'",
            ROWS.format(3001, 3001),
        )
        recording.caught_up()
        with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as application:
            for _ in range(5):
                application.execute("INSERT INTO t VALUES ((SELECT max(n) FROM t) + 1, now())")
                settings = application.execute(
                    "SELECT current_setting('extra_float_digits'), current_setting('search_path')"
                ).fetchone()
                assert settings == ("1", '"$user", public')
        recording.caught_up()
        recording.end()

    stored = recording.transactions()
    assert [t.inserts for t in stored] == [3000, 1, 1, 1, 1, 1, 1]
    assert recording.changes(stored[1])[0].key_hash is not None, "the catalog was asked, too"


def test_a_pooler_that_refuses_replication_is_told_with_the_way_around(
    source: SourceDatabase, record
) -> None:
    source.run(TABLE)
    recording = record(source, start=False, interface="walsender")
    with pooler(source) as dsn:
        recording.dsn = dsn
        recording.start()
        assert "replview slot interface" in recording.problem("pooler").problem_remedy
        recording.end()


@pytest.mark.slow
def test_a_portion_of_any_size_is_read_in_little_memory(source: SourceDatabase, record) -> None:
    psutil = pytest.importorskip("psutil")
    from replview.receiver.plugins import choose
    from replview.receiver.sessions.polling import PollingSession

    source.run(TABLE)
    recording = record(source, start=False)
    source.run(
        "INSERT INTO t SELECT n, repeat('x', 400) FROM generate_series(1, 400000) n",
    )
    options = choose(
        source.version * 10000, [recording.slot.name], {}, slot_two_phase=True, owned=True
    )
    session = PollingSession(source.dsn)
    session.identify()
    session.start(recording.slot.name, _confirmed(recording), options.as_arguments())
    process = psutil.Process()
    frames = most = 0
    before = process.memory_info().rss
    while session.portions_read == 0:
        session.wait(1.0)
        session.settled(0, ())
        frames += len(session.read(2_000, 2**21))
        most = max(most, process.memory_info().rss)
    with suppress(psycopg.Error):
        session.close()

    assert frames > 400_000
    assert most - before < 30 * 2**20
