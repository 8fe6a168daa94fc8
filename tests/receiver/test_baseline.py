"""A table's rows read as of one position, and stored as the stream would have brought them."""

import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from replview.catalog.problems import SourceProblem
from replview.jobs import baselines
from replview.receiver.baselines import baseline as reading
from replview.receiver.baselines.storing import BaselineLost
from replview.runtime.failpoints import Point
from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.store.models import Baseline, LargeValue, Relation, SlotEvent, Transaction
from replview.store.retention import tidy
from tests.support.baselines import asked, begun, read, take
from tests.support.failpoints import armed
from tests.support.recording import Recording
from tests.support.source_databases import SourceDatabase, fresh_database
from tests.support.waiting import wait_for

EVERY_TYPE = """
    CREATE TYPE mood AS ENUM ('sad', 'happy');
    CREATE DOMAIN cents AS int;
    CREATE TYPE pair AS (a int, b text);
    CREATE TABLE every (
        id int PRIMARY KEY, b boolean, s smallint, g bigint, r real, d double precision,
        n numeric(12, 2), t text, v varchar(40), c char(5), ch "char", nm name, by bytea,
        dt date, tm time, tz timetz, ts timestamp, tstz timestamptz, iv interval, u uuid,
        j json, jb jsonb, ip inet, ci cidr, mac macaddr, bt bit(4), vb varbit,
        pt point, bx box, ar int[], ta text[][], rg int4range, tr tstzrange, mr int4multirange,
        m money, o oid, rc regclass, rt regtype, l pg_lsn, mo mood, ce cents, pa pair,
        ma mood[], tv tsvector, tq tsquery, jp jsonpath)
"""
ROW = r"""
    INSERT INTO every VALUES (%s, true, -3, 9007199254740993, 0.1, 1e-300, 12.50,
        E'tab\there\nline \\N \\. back\\slash é 漢', '', 'ab', 'q', 'nm', '\xdeadbeef00',
        '2026-11-20 BC', '07:57:11.3', '07:57:11+02', 'infinity', '2026-11-20 07:57:11.369827+02',
        '1 year -2 days 03:04:05', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a":  [1, "x\ty"]}',
        '{"b": null, "a": 1}', '10.0.0.1/8', '10.0.0.0/8', '08:00:2b:01:02:03',
        B'1010', B'101', '(1.5,2)', '(3,4),(1,2)', '{1,NULL,3}', E'{{"a b","c\\"d"},{NULL,"\\\\"}}',
        '[1,5)', '[2026-01-01,infinity)', '{[1,3),[5,7)}', 12.34, 16384, 'every', 'text',
        '1/2A', 'happy', 7, '(1,"x, y")', '{sad,happy}', 'a fat cat', 'fat & rat',
        '$.a[*] ? (@ > 1)')
"""


#: So slow that a table is still being read, whatever a test does meanwhile.
SLOWLY = 1


def rows_of(recording: Recording, transaction: Transaction) -> dict[str, dict]:
    """Return the rows of the transaction by id."""
    return {change.new["id"]: change.new for change in recording.changes(transaction)}


def ending_in(error: type[Exception], *arguments) -> threading.Thread:
    """A thread that reads a baseline, and must end so."""

    def read_it() -> None:
        with pytest.raises(error):
            read(*arguments)

    thread = threading.Thread(target=read_it)
    thread.start()
    return thread


@pytest.mark.pg(14)
def test_text_is_what_the_stream_would_have_brought(any_source: SourceDatabase, record) -> None:
    any_source.run(EVERY_TYPE, ROW.replace("%s", "1"), "INSERT INTO every (id) VALUES (2)")
    recording = record(any_source)
    any_source.run(ROW.replace("%s", "3"), "INSERT INTO every (id) VALUES (4)")
    recording.caught_up()
    snapshot = rows_of(recording, take(recording, "every"))

    full, empty = (recording.changes(t)[0].new for t in recording.transactions(state="committed"))
    assert snapshot["1"] == full | {"id": "1"}
    assert snapshot["3"] == full
    assert snapshot["2"] == empty | {"id": "2"}
    # And the keys are hashed alike.
    [streamed] = recording.changes(recording.transactions(state="committed")[0])
    taken = Transaction.objects.get(state="snapshot")
    assert {c.key_hash for c in recording.changes(taken) if c.new["id"] == "3"} == {
        streamed.key_hash
    }


def test_it_is_one_transaction_at_one_position(source: SourceDatabase, record) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 9)")
    recording = record(source)
    taken = take(recording, "t")
    source.run("INSERT INTO t VALUES (10)")
    recording.caught_up()

    changes = recording.changes(taken)
    assert [c.op for c in changes] == ["S"] * 9
    assert [c.seq for c in changes] == list(range(1, 10))
    assert {c.lsn for c in changes} == {taken.commit_lsn} == {taken.end_lsn} == {taken.first_lsn}
    assert (taken.xid, taken.inserts, taken.commit_seq) == (None, 9, 1)
    assert list(taken.relations.values()) == [[9, 0, 0, 0]]
    [after] = recording.transactions(state="committed")
    assert (after.commit_seq, after.commit_lsn > taken.commit_lsn) == (2, True)
    baseline = Baseline.objects.get()
    assert (baseline.rows, baseline.lsn, baseline.problem_code) == (9, taken.commit_lsn, "")
    assert SlotEvent.objects.filter(kind="baseline").count() == 1
    recording.slot.refresh_from_db()
    assert recording.slot.changes_stored == 10
    assert recording.wakes


@pytest.mark.parametrize(
    ("table", "identity"),
    [
        ("(id int PRIMARY KEY, v varchar(40), n numeric(12,2))", ""),
        ("(a int, id int, v text, UNIQUE (id, a))", "REPLICA IDENTITY FULL"),
        ("(id int PRIMARY KEY DEFERRABLE, v text)", ""),
        ("(id int, v text)", "REPLICA IDENTITY NOTHING"),
        ("(id int NOT NULL, v text NOT NULL, UNIQUE (v) INCLUDE (id))",
         "REPLICA IDENTITY USING INDEX t_v_id_key"),
    ],
)  # fmt: skip
def test_a_baseline_makes_no_version_of_its_own(
    any_source: SourceDatabase, record, table: str, identity: str
) -> None:
    any_source.run(f"CREATE TABLE t {table}", "INSERT INTO t (id, v) VALUES (1, 'x')")
    if identity:
        any_source.run(f"ALTER TABLE t {identity}")
    recording = record(any_source)
    taken = take(recording, "t")
    any_source.run("INSERT INTO t (id, v) VALUES (2, 'y')")
    recording.caught_up()

    [streamed] = recording.transactions(state="committed")
    relation = Relation.objects.get(table="t")
    [version] = relation.versions.all()
    assert relation.current_version == version
    assert len(version.intervals) == 1
    assert {c.version_id for t in (taken, streamed) for c in recording.changes(t)} == {version.pk}


@pytest.mark.pg(15)
def test_columns_and_rows_that_are_not_published_are_not_read(any_source, record) -> None:
    any_source.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text, card text, "
        "twice int GENERATED ALWAYS AS (id * 2) STORED)",
        "INSERT INTO t VALUES (1, 'low', '4111'), (8, 'high', '4222')",
    )
    recording = record(any_source, publish="TABLE t (id, v) WHERE (id > 7)")
    taken = take(recording, "t")

    assert rows_of(recording, taken) == {"8": {"id": "8", "v": "high"}}


def test_computed_columns_come_as_in_the_stream(any_source: SourceDatabase, record) -> None:
    any_source.run(
        "CREATE TABLE t (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)",
        "INSERT INTO t VALUES (1)",
    )
    extra = any_source.server.version >= 18
    with_computed = " WITH (publish_generated_columns = stored)" if extra else ""
    recording = record(any_source, publish=f"TABLE t{with_computed}")
    any_source.run("INSERT INTO t VALUES (2)")
    recording.caught_up()
    taken = take(recording, "t")

    [streamed] = recording.changes(recording.transactions(state="committed")[0])
    assert rows_of(recording, taken)["2"] == streamed.new
    assert ("twice" in streamed.new) == extra


def test_rules_hold_for_baselines_too(source: SourceDatabase, record) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, card text, mail text)",
               "INSERT INTO t VALUES (1, '4111', 'a@b')")  # fmt: skip
    rules = {"public.t": {"card": "drop", "mail": "mask"}}
    recording = record(source, column_rules=rules)

    taken = take(recording, "t")
    assert rows_of(recording, taken) == {"1": {"id": "1", "mail": {"$masked": True}}}


@pytest.mark.pg(13)
def test_a_partitioned_table_is_read_by_the_name_it_goes_by(any_source, record) -> None:
    any_source.run(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM (10) TO (20)",
        "INSERT INTO t VALUES (1), (11)",
    )
    leaves = record(any_source)
    root = record(any_source, publish="TABLE t WITH (publish_via_partition_root = true)")

    assert set(rows_of(leaves, take(leaves, "t_1"))) == {"1"}
    assert set(rows_of(root, take(root, "t"))) == {"1", "11"}
    with pytest.raises(SourceProblem, match="not published"):
        take(root, "t_1")


def test_a_parent_without_partitions_is_read_alone(source: SourceDatabase, record) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE child () INHERITS (t)",
               "INSERT INTO t VALUES (1)", "INSERT INTO child VALUES (2)")  # fmt: skip
    recording = record(source)

    assert set(rows_of(recording, take(recording, "t"))) == {"1"}


def test_an_empty_table_has_a_baseline_too(source: SourceDatabase, record) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE nothing ()",
               "INSERT INTO nothing DEFAULT VALUES")  # fmt: skip
    recording = record(source)

    assert list(take(recording, "t").relations.values()) == [[0, 0, 0, 0]]
    [change] = recording.changes(take(recording, "nothing"))
    assert change.new == {}


@pytest.fixture
def ascii_source(source_cluster_18: EmbeddedPostgres) -> Iterator[SourceDatabase]:
    """A database whose texts are whatever bytes were sent."""
    yield from fresh_database(source_cluster_18, "ENCODING 'SQL_ASCII'")


def test_bytes_that_are_no_text_are_marked(ascii_source: SourceDatabase, record) -> None:
    source = ascii_source
    source.run("CREATE TABLE t (id int PRIMARY KEY, v text, w text)",
               "INSERT INTO t VALUES (1, E'caf\\xe9', 'a\tb')")  # fmt: skip
    recording = record(source)
    [row] = rows_of(recording, take(recording, "t")).values()

    assert row == {"id": "1", "v": {"$bytes": "Y2Fm6Q==", "$type": 25}, "w": "a\tb"}


def test_a_value_too_long_for_jsonb_goes_aside(source, record, settings) -> None:
    settings.VALUE_ASIDE_BYTES = 100_000
    source.run("CREATE TABLE t (id int PRIMARY KEY, long text)",
               "INSERT INTO t VALUES (1, repeat('x', 200000))")  # fmt: skip
    recording = record(source)
    taken = take(recording, "t")

    assert rows_of(recording, taken)["1"]["long"] == {"$aside": 200_000}
    assert LargeValue.objects.get(transaction_id=taken.pk).content == "x" * 200_000


def test_the_slot_of_the_snapshot_is_gone_while_the_table_is_read(source, record) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 50)")
    recording = record(source)
    claim = begun(asked(recording, "t", rows_per_second=SLOWLY))
    thread = threading.Thread(target=read, args=[claim, recording])
    thread.start()
    wait_for(lambda: Baseline.objects.get().rows)

    with source.connect() as session:
        slots = session.execute("SELECT slot_name FROM pg_replication_slots").fetchall()
        readers = session.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY (SELECT%'"
        ).fetchone()
    assert [name for (name,) in slots if "baseline" in name] == []
    assert readers == (1,)
    assert Transaction.objects.get(inserts=0).state == "copying"
    Baseline.objects.update(rows_per_second=None)
    thread.join(60)
    assert Baseline.objects.get().state == "done"


def test_a_rate_is_kept(source: SourceDatabase, record) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 90)")
    recording = record(source)
    started = time.monotonic()
    take(recording, "t", rows_per_second=60)

    # Only the machine decides how much longer it takes.
    assert time.monotonic() - started > 1.2


def test_a_cancelled_one_leaves_nothing(source: SourceDatabase, record) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 90)")
    recording = record(source)
    baseline = asked(recording, "t", rows_per_second=SLOWLY)
    claim = begun(baseline)
    thread = ending_in(BaselineLost, claim, recording)
    wait_for(lambda: Baseline.objects.get().rows)
    assert baselines.rows.cancel(baseline.pk)
    thread.join(60)

    assert not thread.is_alive()
    assert Baseline.objects.get().state == "cancelled"
    assert tidy.sweep_discarded(time.monotonic() + 10) == 1
    assert not Transaction.objects.exists()


def test_a_stopped_worker_gives_it_back(source: SourceDatabase, record) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 90)")
    recording = record(source)
    baseline = asked(recording, "t", rows_per_second=SLOWLY)
    claim, stop = begun(baseline), threading.Event()
    thread = ending_in(reading.BaselineStopped, claim, recording, stop)
    wait_for(lambda: Baseline.objects.get().rows)
    stop.set()
    thread.join(60)
    assert baselines.rows.give_back(claim)

    assert Transaction.objects.get().state == "discarded"
    Baseline.objects.update(rows_per_second=None)
    assert read(begun(baseline), recording).rows == 90


def test_the_table_of_a_lost_worker_is_read_anew(source: SourceDatabase, record) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 90)")
    recording = record(source)
    baseline = asked(recording, "t", rows_per_second=SLOWLY)
    claim = begun(baseline)
    thread = ending_in(BaselineLost, claim, recording)
    wait_for(lambda: Baseline.objects.get().rows)
    # Frozen for long, as far as anybody can see.
    Baseline.objects.update(heartbeat_at="2020-01-01T00:00Z")
    baselines.rows.give_back_lost()
    assert Baseline.objects.get().state == "requested"

    Baseline.objects.update(rows_per_second=None)
    done = read(begun(baseline), recording)
    thread.join(60)
    assert not thread.is_alive()
    assert done.rows == 90
    assert sorted(t.state for t in Transaction.objects.all()) == ["discarded", "snapshot"]
    [taken] = recording.transactions(state="snapshot")
    assert len(recording.changes(taken)) == 90


def test_a_new_incarnation_of_the_slot_ends_it(source: SourceDatabase, record) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 50)")
    recording = record(source)
    baseline = asked(recording, "t", rows_per_second=SLOWLY)
    claim, failed = begun(baseline), []

    def try_it() -> None:
        with pytest.raises(SourceProblem) as caught:
            read(claim, recording)
        failed.append(caught.value.code)

    thread = threading.Thread(target=try_it)
    thread.start()
    wait_for(lambda: Baseline.objects.get().rows)
    recording.end()
    source.run(
        "INSERT INTO t VALUES (100)",
        f"SELECT pg_replication_slot_advance('{recording.slot.name}', pg_current_wal_lsn())",
    )
    recording.start()
    wait_for(lambda: recording.slot.incarnations.count() == 2)
    Baseline.objects.update(rows_per_second=None)
    thread.join(60)

    assert failed == ["incarnation_ended"]
    assert Transaction.objects.get(state="copying")
    baselines.rows.fail(claim, "it began anew", "Ask again", problem_code="incarnation_ended")
    assert not Transaction.objects.filter(state="copying").exists()


@pytest.mark.parametrize(
    ("prepare", "code"),
    [
        ("ALTER TABLE t ENABLE ROW LEVEL SECURITY", "row_security"),
        ("REVOKE ALL ON t FROM PUBLIC, baseline_reader", "may_not_read"),
        ("DROP TABLE t", "not_published"),
    ],
)
def test_what_keeps_it_from_being_read_is_named(source, record, prepare: str, code: str) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "DO $$ BEGIN CREATE ROLE baseline_reader LOGIN REPLICATION PASSWORD 'p'; "
        "EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        "GRANT SELECT ON t TO baseline_reader",
    )
    recording = record(source)
    source.run(prepare)
    claim = begun(asked(recording, "t"))
    from psycopg.conninfo import make_conninfo

    recording.dsn = make_conninfo(source.dsn, user="baseline_reader", password="p")
    with pytest.raises(SourceProblem) as caught:
        read(claim, recording)
    recording.dsn = ""
    assert caught.value.code == code
    assert caught.value.remedy
    assert baselines.rows.fail(claim, "why", "what to do", problem_code=code)
    assert not Transaction.objects.filter(state="copying").exists()


def test_transactions_that_do_not_end_are_waited_for_only_so_long(
    source, record, monkeypatch
) -> None:
    from replview.receiver.baselines import reading as baseline_reading

    monkeypatch.setattr(baseline_reading, "WAIT_SECONDS", 1.0)
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source)
    with source.connect() as session:
        session.execute("BEGIN")
        session.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(SourceProblem) as caught:
            read(begun(asked(recording, "t")), recording)
        slots = session.execute("SELECT slot_name FROM pg_replication_slots").fetchall()
        session.execute("ROLLBACK")
    assert caught.value.code == "waited"
    assert [name for (name,) in slots if "baseline" in name] == []


def test_a_table_truncated_between_snapshot_and_lock_is_not_taken_for_empty(source, record) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    recording = record(source)
    truncate = partial(source.run, "TRUNCATE t")
    with armed(Point.AFTER_SNAPSHOT, truncate), pytest.raises(SourceProblem) as caught:
        read(begun(asked(recording, "t")), recording)
    assert caught.value.code == "moved"


def test_another_cluster_is_not_read_into_this_record(source, source_15, record) -> None:
    if source.server is source_15.server:
        pytest.skip("this is the other cluster")
    for database in (source, source_15):
        database.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source)
    claim = begun(asked(recording, "t"))
    recording.dsn = source_15.dsn
    with pytest.raises(SourceProblem) as caught:
        read(claim, recording)
    recording.dsn = ""
    assert caught.value.code == "other_cluster"
