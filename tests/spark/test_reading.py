"""The store read as Arrow: exactly what was recorded, typed, in the order of history."""

from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from decoder.scalars import LSN
from replview.parquet import reading
from replview.parquet.reading import batches as batching
from replview.parquet.reading import cutting, slice_tables, transactions, typed_query
from replview.parquet.reading.cutting import cut_tables
from replview.parquet.slices import Narrowing, Slice, SliceRange, SliceTable
from replview.parquet.writing.planning import ExportPlan
from replview.store.models import Change, LargeValue, Transaction
from replview.store.read.transactions.transaction_filter import TransactionFilter
from tests.spark.awkward import as_rows, expected_rows, mark, write_awkward

pytestmark = pytest.mark.slow


@pytest.fixture
def store(store_dsn):
    with reading.connect(store_dsn) as connection:
        yield connection


def test_every_awkward_value_is_read_as_it_was_recorded(source, record, store, monkeypatch) -> None:
    recording = write_awkward(source, record)
    monkeypatch.setattr(batching, "BATCH_ROWS", 7)

    whole = reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))
    assert Slice.from_json(whole.to_json()) == whole
    awkward, other = reading.tables_of(store, whole)
    assert (awkward.name, other.name) == ("public.Awkward", "public.other")
    assert SliceTable.from_json(awkward.to_json()) == awkward
    assert [version.number for version in awkward.versions] == [1, 2]
    names = awkward.arrow_schema().names
    assert names[:4] == ["id", "ID_2", "_seq_", "a \"b.c'"]
    assert {"two", "hour", "o_clock", "extra"} <= set(names)
    assert awkward.arrow_schema().field("id").type == pa.int64()

    def read_as_recorded() -> None:
        for table in (awkward, other):
            batches = list(reading.read_typed(store, whole, table))
            assert all(batch.schema.equals(table.arrow_schema()) for batch in batches)
            rows = as_rows(batches)
            assert rows == expected_rows(table)
            assert table.rows == sum(row["_change_type"] != "update_preimage" for row in rows)

    with monkeypatch.context() as patch:
        # Texts that look like marks would have rows looked at.
        patch.setattr(typed_query, "_MARK", b"\xfd")
        patch.setattr(batching, "fit", None)
        read_as_recorded()
    first = Change.objects.filter(op="I", new__contains={"id": "1"}).order_by("pk")[0]
    # Marks, as column rules and values too long for JSONB leave them.
    first.new |= {
        "price": {"$masked": True},
        "wide": {"$aside": 6},
        "n": {"$too_large": 9, "$sha256": "a"},
    }
    Change.objects.filter(pk=first.pk).update(new=first.new)
    for piece, content in enumerate(["abc", "def"]):
        LargeValue.objects.create(
            transaction_id=first.transaction_id, seq=first.seq, side="new", column="wide",
            piece=piece, content=content,
        )  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(batching, "copied", None)
        read_as_recorded()
    with monkeypatch.context() as patch:
        # Read in the way in which large or scattered transactions are read.
        patch.setattr(transactions, "GROUP_CHANGES", 0)
        patch.setattr(transactions, "SPARSE", 0)
        read_as_recorded()

    # The text of a number never holds this separator.
    first.new |= {"_seq": "7\x1f8"}
    Change.objects.filter(pk=first.pk).update(new=first.new)
    read_as_recorded()
    [masked] = [row for row in as_rows(reading.read_typed(store, whole, awkward))
                if row["_pg_raw"].get("price") == mark("$masked")]  # fmt: skip
    assert (masked["wide"], masked["price"], masked["n"]) == ("abcdef", None, None)


def test_ranges_are_even_whole_and_cut_within_one_large_transaction(source, record, store) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    recording = record(source)
    source.run(
        "INSERT INTO t SELECT n, 'v' FROM generate_series(1, 1000) n",
        *[f"INSERT INTO t VALUES ({n}, 'v')" for n in range(2000, 2020)],
        """BEGIN; SAVEPOINT s; INSERT INTO t SELECT n, 'v' FROM generate_series(3000, 3499) n;
           ROLLBACK TO s; INSERT INTO t SELECT n, 'v' FROM generate_series(4000, 4179) n; COMMIT""",
    )
    recording.caught_up()
    whole = reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))
    [table] = reading.tables_of(store, whole)
    assert table.rows == 1200
    everything = as_rows(reading.read_typed(store, whole, table))
    assert [row["id"] for row in everything] == [*range(1, 1001), *range(2000, 2020),
                                                 *range(4000, 4180)]  # fmt: skip
    for ranges in (
        reading.cut(store, whole, table, parts=8),
        reading.cut(store, whole, table, rows_per_part=150),
        reading.cut(store, whole, table, rows_per_part=150, by_day=True),
    ):
        assert ranges == [SliceRange.from_json(each.to_json()) for each in ranges]
        parts = [as_rows(reading.read_typed(store, whole, table, each)) for each in ranges]
        assert [row for rows in parts for row in rows] == everything
        assert [len(rows) for rows in parts] == [each.rows for each in ranges]
        assert len(parts) == 8
        assert max(map(len, parts)) - min(map(len, parts)) <= 15
    untyped = reading.cut(store, whole, None, parts=3)
    assert sum(batch.num_rows for each in untyped
               for batch in reading.read_untyped(store, whole, each)) == 1200  # fmt: skip


def test_each_actor_of_a_transaction_has_their_own_changes(source, record, store) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, who text)")
    recording = record(source)
    claim = """SELECT pg_logical_emit_message(true, 'replview', '{{"actor": "{}"}}')""".format
    rows = "INSERT INTO t SELECT n, {} FROM generate_series({}, {}) n".format
    several = [rows("NULL", 1, 30), claim("alice"), rows("'alice'", 31, 400), claim("bob"),
               rows("'bob'", 401, 500), "DELETE FROM t WHERE id = 1"]  # fmt: skip
    bobs = [claim("bob"), rows("'bob'", 501, 550)]
    with source.connect() as connection:
        for statement in ("BEGIN", *several, "COMMIT", "BEGIN", *bobs, "COMMIT"):
            connection.execute(statement)
    source.run(rows("NULL", 551, 560))
    recording.caught_up()

    for asked, who in (
        ({"actors": ("alice",)}, {"alice"}),
        ({"filter": TransactionFilter(actor="bob")}, {"bob"}),
        ({"actors": ("alice", "bob")}, {"alice", "bob"}),
        ({"filter": TransactionFilter(actor="?")}, {None}),
        ({}, {"alice", "bob", None}),
    ):
        part = reading.resolve(store, reading.SliceRequest(slot=recording.slot.name, **asked))
        [table] = reading.tables_of(store, part)
        found = as_rows(reading.read_typed(store, part, table))
        inserted = [row for row in found if row["_change_type"] == "insert"]
        assert all(row["who"] == row["_actor"] for row in inserted), asked
        assert {row["who"] for row in inserted} == who
        assert len(inserted) == sum({None: 40, "alice": 370, "bob": 150}[name] for name in who)
        assert table.rows == len({(row["_commit_version"], row["_seq"]) for row in found})
        untyped = [row for batch in reading.read_untyped(store, part) for row in batch.to_pylist()]
        assert {row["actor"] for row in untyped} == who
        named = [
            (row["actor"], row["actors"]) for row in as_rows(reading.read_transactions(store, part))
        ]
        both, bob, nobody = ("bob", ["alice", "bob"]), ("bob", ["bob"]), (None, [])
        assert named == [
            each
            for each, whose in ((both, {"alice", "bob", None}), (bob, {"bob"}), (nobody, {None}))
            if whose & who
        ]
        for of, whole in ((table, len(found)), (None, len(untyped))):
            ranges = reading.cut(store, part, of, parts=4)
            read = [
                sum(batch.num_rows for batch in (
                    reading.read_typed(store, part, of, each) if of
                    else reading.read_untyped(store, part, each)))
                for each in ranges
            ]  # fmt: skip
            assert read == [each.rows for each in ranges]
            assert sum(read) == whole


def test_the_table_that_took_a_name_last_has_it(source, record, store) -> None:
    source.run(
        "CREATE TABLE other (id int PRIMARY KEY, a text)", "CREATE TABLE t (id int PRIMARY KEY)"
    )
    recording = record(source)
    source.run("INSERT INTO other VALUES (1)", "INSERT INTO t VALUES (1)",
               "ALTER TABLE t RENAME TO former", "ALTER TABLE other RENAME TO t",
               "INSERT INTO t VALUES (2)")  # fmt: skip
    recording.caught_up()

    part = reading.resolve(
        store,
        reading.SliceRequest(
            slot=recording.slot.name, filter=TransactionFilter(tables=("public.t",))
        ),
    )
    assert [column.name for column in slice_tables.chosen(store, part).columns] == ["id", "a"]


def test_a_key_that_is_sent_with_the_old_row_alone_is_in_the_new_one(source, record, store) -> None:
    source.run(
        "CREATE TABLE long (id text PRIMARY KEY, n int)",
        "ALTER TABLE long ALTER id SET STORAGE EXTERNAL",
    )
    recording = record(source)
    source.run("INSERT INTO long VALUES (repeat('x', 2500), 1)", "UPDATE long SET n = 2")
    recording.caught_up()
    part = reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))
    [table] = reading.tables_of(store, part)
    rows = [row for batch in reading.read_typed(store, part, table) for row in batch.to_pylist()]
    assert [(row["id"], row["n"], row["_not_sent"]) for row in rows] == [
        ("x" * 2500, 1, []), ("x" * 2500, 2, []),
    ]  # fmt: skip


def test_lsns_times_actors_and_operations_choose_transactions(source, record, store) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source)
    source.run(*[f"INSERT INTO t VALUES ({n})" for n in range(20)], "DELETE FROM t WHERE id < 5")
    recording.caught_up()
    lsns = [LSN(lsn) for lsn in Transaction.objects.order_by("commit_seq").values_list(
        "commit_lsn", flat=True)]  # fmt: skip

    def resolved(**words) -> Slice:
        filter_ = TransactionFilter(**words)
        return reading.resolve(
            store, reading.SliceRequest(slot=recording.slot.name, filter=filter_)
        )

    def ids(**words) -> list[int]:
        part = resolved(**words)
        return [row["id"] for table in reading.tables_of(store, part)
                for row in as_rows(reading.read_typed(store, part, table))]  # fmt: skip

    assert ids(from_lsn=lsns[3], to_lsn=lsns[6]) == [3, 4, 5, 6]
    assert ids(from_lsn=LSN(lsns[3] + 1), to_lsn=LSN(lsns[4] - 1)) == []
    assert ids(to_lsn=lsns[0]) == [0]
    assert ids(ops="D") == [0, 1, 2, 3, 4]
    assert ids(actor="nobody") == []
    narrow = resolved(from_lsn=lsns[3], to_lsn=lsns[6])
    assert (narrow.after_seq, narrow.through_seq) == (3, 7)
    rows = as_rows(reading.read_transactions(store, narrow))
    assert [(row["commit_seq"], row["inserts"], row["state"]) for row in rows] == [
        (n, 1, "committed") for n in (4, 5, 6, 7)
    ]
    times = Transaction.objects.order_by("commit_seq").values_list("commit_time", flat=True)
    assert ids(since=times[18].isoformat(), until=times[19].isoformat()) == [18]


def test_events_are_told_apart(source, record, store) -> None:
    recording = write_awkward(source, record)
    whole = reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))
    truncated, message = as_rows(reading.read_events(store, whole))
    assert (truncated["op"], truncated["table"], truncated["cascade"]) == (
        "truncate", "other", False
    )  # fmt: skip
    assert (message["op"], message["prefix"], message["content"]) == ("message", "p", "told")


def test_a_reading_that_is_left_early_leaves_a_usable_connection(source, record, store) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source)
    source.run("INSERT INTO t SELECT generate_series(1, 100000)")
    recording.caught_up()
    whole = reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))
    [table] = reading.tables_of(store, whole)
    batches = reading.read_typed(store, whole, table)
    next(batches)
    batches.close()
    assert store.execute("SELECT 1").fetchone() == (1,)


def test_a_plan_reads_the_transactions_as_often_whatever_the_number_of_tables(
    source, record, store, monkeypatch
) -> None:
    names = [f"t{n}" for n in range(12)]
    source.run(*[f"CREATE TABLE {name} (id int PRIMARY KEY, v text)" for name in names],
               "ALTER TABLE t3 REPLICA IDENTITY FULL")  # fmt: skip
    recording = record(source)
    source.run(*[f"INSERT INTO {name} SELECT n, 'v' FROM generate_series(1, 40) n"
                 for name in names])  # fmt: skip
    recording.caught_up()
    few = reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))
    source.run(*[f"BEGIN; UPDATE {names[n % 12]} SET v = 'w' WHERE id <= {n};"
                 f" DELETE FROM t0 WHERE id = {n}; COMMIT" for n in range(1, 30)])  # fmt: skip
    recording.caught_up()
    whole = reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))

    tables = {table.relation_id: (table, 17) for table in reading.tables_of(store, whole)}
    assert len(tables) == 12
    assert cut_tables(store, whole, tables) == {
        relation: reading.cut(store, whole, table, rows_per_part=17, by_day=True)
        for relation, (table, _) in tables.items()
    }
    # Narrowing to some actors cuts the same: no change names an actor here.
    nobody = replace(whole, narrowed=Narrowing.of(TransactionFilter(actor="?")))
    assert cut_tables(store, nobody, tables) == cut_tables(store, whole, tables)

    asked: list[str] = []

    def execute(self: Any, query: Any, *words: Any, **more: Any) -> Any:
        asked.append(query if isinstance(query, str) else query.as_string(store))
        return run(self, query, *words, **more)

    run = psycopg.Connection.execute

    def scans(part: Slice) -> int:
        asked.clear()
        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", execute)
            ExportPlan.of(store, part)
        return sum("FROM transaction t" in each for each in asked)

    assert scans(whole) <= scans(replace(few, tables=("public.t1",))) + 1


def test_a_plan_fetches_few_rows_of_many_transactions(source, record, store, monkeypatch) -> None:
    """Spark's driver and the worker plan: what they hold must not grow with the record."""
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source)
    source.run(*[f"INSERT INTO t VALUES ({n})" for n in range(300)])
    recording.caught_up()
    monkeypatch.setattr(cutting, "_BLOCKS", 8)
    monkeypatch.setattr(cutting, "_FINENESS", 4)
    whole = reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))
    [table] = reading.tables_of(store, whole)
    fetched = 0

    def counted(cursor: Any) -> Any:
        make = psycopg.rows.tuple_row(cursor)

        def row(values: Any) -> Any:
            nonlocal fetched
            fetched += 1
            return make(values)

        return row

    store.row_factory = counted
    assert len(reading.cut(store, whole, table, parts=6)) == 6
    assert sum(part.within.rows for part in ExportPlan.of(store, whole).parts) == 600
    assert 8 < fetched < 80
