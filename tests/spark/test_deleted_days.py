"""Deleted days are read from the archive, each row once; a missing day is an error."""

import datetime as dt
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from pyspark.errors import PySparkException

from replview.features.archive import job as archiving
from replview.parquet import reading
from replview.parquet.reading import StoreProblem
from replview.spark.data_source import ReplviewDataSource
from replview.spark.options import Options
from replview.spark.stream_offsets import changes_between
from replview.store import instance_settings
from replview.store.models import Change, MaskRule, Transaction
from replview.store.read.days import IDS_PER_HOUR, day_of
from replview.store.retention import archive, deletion
from replview.store.retention.deletion import drop_day
from replview.store.write.partitions import ensure_partitions
from tests.spark.awkward import write_awkward
from tests.spark.streaming import stream_by
from tests.support.archive_here import archive_here

pytestmark = pytest.mark.slow

_AGE = "UPDATE {table} SET {id} = {id} - {hours}::bigint * {per_hour} WHERE {id} > {after}"
_TABLES = {"transaction": "id", "change": "transaction_id", "transition": "transaction_id",
           "aborted_subtransaction": "transaction_id", "large_value": "transaction_id"}  # fmt: skip


def age(days: int) -> None:
    """All that is stored so far was first seen so many days earlier."""
    newest = Transaction.objects.order_by("pk").last()
    assert newest is not None
    ensure_partitions(connection.connection, day_of(newest.pk - days * 24 * IDS_PER_HOUR),
                      day_of(newest.pk))  # fmt: skip
    with connection.cursor() as cursor:
        # Transactions that were aged before stay where they are.
        after = newest.pk - 24 * IDS_PER_HOUR
        for table, name in _TABLES.items():
            cursor.execute(_AGE.format(table=table, id=name, hours=days * 24,
                                       per_hour=IDS_PER_HOUR, after=after))  # fmt: skip
    archive_day = Transaction.objects.filter(stored_at__isnull=False)
    archive_day.update(stored_at="2026-01-01T00:00Z")


def drop_oldest() -> None:
    """Delete the oldest day by retention, which keeps what the archive still lacks."""
    day = deletion.oldest_day()
    assert deletion.why_kept(day) == ""
    while Transaction.objects.filter(pk__lt=(deletion._ids(day)[1])).exists():
        assert drop_day(deletion.oldest_day())


@pytest.fixture
def archived(tmp_path: Path, monkeypatch, store_dsn: str) -> Callable[[], str]:
    """Archives all that is old enough, in this process; gives the archive's root."""
    root = str(tmp_path / "archive")

    def run() -> str:
        instance_settings.write("archive.target", root, "somebody")
        assert archiving.work_off(threading.Event())
        return root

    monkeypatch.setenv("REPLVIEW_STORE_URL", store_dsn)
    archive_here(monkeypatch)
    return run


def read(dsn: str, **options: str) -> list[dict[str, Any]]:
    """Return the rows read by the reader that Spark drives."""
    source = ReplviewDataSource({"dsn": dsn, **options})
    reader = source.reader(source.schema())
    return [row for partition in reader.partitions() for batch in reader.read(partition)
            for row in batch.to_pylist(maps_as_pydicts="strict")]  # fmt: skip


def test_rows_of_the_archive_are_those_that_the_store_had(
    source, record, store_dsn: str, archived, monkeypatch
) -> None:
    source.run("CREATE TABLE r (id int PRIMARY KEY, v int[], w numeric(6,2), x int, y date)")
    recording = write_awkward(source, record)
    source.run(
        "INSERT INTO r VALUES (1, '{1,2}', 'NaN', 5, 'infinity'), (2, '{{3}}', 1.50, NULL, NULL)"
    )
    recording.caught_up()
    source.run(
        "ALTER TABLE r ALTER v TYPE text[], ALTER w TYPE text, ALTER x TYPE numeric(20,3), "
        "ALTER y TYPE text",
        "ALTER TABLE r RENAME TO s",
        "UPDATE s SET v = '{a,NULL}' WHERE id = 1", "INSERT INTO s VALUES (3, '{}', 'x', 7.5, '')",
        "SELECT pg_logical_emit_message(false, 'p', 'alone')", "INSERT INTO s VALUES (4)",
    )  # fmt: skip
    recording.caught_up()
    recording.end()
    # The last row as a baseline has them.
    read_in = Transaction.objects.filter(inserts=1).latest("commit_seq")
    Transaction.objects.filter(pk=read_in.pk).update(state="snapshot", xid=None)
    Change.objects.filter(transaction_id=read_in.pk).update(op="S")
    MaskRule.objects.create(table_pattern="public.other", column_pattern="v", when="display")
    placed = Transaction.objects.filter(commit_lsn__isnull=False).order_by("commit_seq")
    lsns = [int(lsn) for lsn in placed.values_list("commit_lsn", flat=True)]
    whole = {"slot": recording.slot.name}
    asked = [
        whole, {**whole, "relation": "public.Awkward"}, {**whole, "relation": "public.other"},
        {**whole, "relation": "public.other", "masked": "none"},
        {**whole, "masked": '{"public.Awkward": ["price", "wide", "extra"]}'},
        {**whole, "relation": "public.Awkward", "columns": "extra,id,doc",
         "masked": '{"public.Awkward": ["id"]}'},
        {**whole, "excluded": "public.other"}, {**whole, "operations": "update,truncate"},
        {**whole, "relation": "public.other", "operations": "insert"},
        {**whole, "relation": "public.s"}, {**whole, "operations": "snapshot"},
        {**whole, "relation": "public.s", "operations": "insert,delete"},
        {**whole, "relation": "public.s", "operations": "snapshot,update"},
        {**whole, "operations": "message", "from_lsn": str(lsns[-2])},
        {**whole, "from_lsn": str(lsns[2]), "to_lsn": str(lsns[-4])},
        {**whole, "relation": "public.other", "to_lsn": str(lsns[-5])},
        {**whole, "since": "2026-01-01", "actors": "?"},
        {**whole, "relation": "public.s", "until": "2026-01-01"},
    ]  # fmt: skip
    there = [read(store_dsn, **each) for each in asked]
    assert [each for each, rows in zip(asked, there, strict=True) if not rows] == asked[-1:]
    for row in (row for rows in there for row in rows if "subxid" in row):
        # Files do not tell it.
        row["subxid"] = None
        if row["commit_time"] is None:
            # age() moves the day of recording.
            row["commit_date"] = dt.date(2026, 1, 1)
    age(4)
    monkeypatch.setattr(archive, "MOST_TRANSACTIONS", 5)
    root = archived()
    drop_oldest()
    assert not Transaction.objects.exists()
    for options, rows in zip(asked, there, strict=True):
        assert read(store_dsn, archive=root, **options) == rows, options
    with pytest.raises(StoreProblem, match="deleted commit_seq 1 to"):
        read(store_dsn, **whole)
    with pytest.raises(StoreProblem, match="in the archive alone"):
        read(store_dsn, archive=root, before="full", **whole)


@pytest.mark.own_jvm
def test_a_read_over_the_border_goes_on_in_the_store_and_a_hole_is_an_error(
    source, record, store_dsn: str, archived, caplog, monkeypatch, spark
) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source)
    source.run(*[f"INSERT INTO t VALUES ({n})" for n in range(6)])
    recording.caught_up()
    fresh = read(store_dsn, relation="public.t")
    assert [row["id"] for row in fresh] == [*range(6)]
    age(4)
    source.run(*[f"INSERT INTO t VALUES ({n})" for n in range(6, 10)])
    recording.caught_up()
    recording.end()
    whole = read(store_dsn, relation="public.t")
    lsns = [row["_commit_version"] for row in whole]
    monkeypatch.setattr(archive, "MOST_TRANSACTIONS", 2)
    root = archived()
    # Rows that are read when their day goes.
    asked = ReplviewDataSource({"dsn": store_dsn, "relation": "public.t"})
    reader = asked.reader(asked.schema())
    [partition] = reader.partitions()
    rows = reader.read(partition)
    assert next(rows).num_rows == 10
    drop_oldest()
    with pytest.raises(StoreProblem, match="while they were read"):
        next(rows)

    assert read(store_dsn, relation="public.t", archive=root) == whole
    options = {"dsn": store_dsn, "relation": "public.t", "archive": root}
    assert changes_between(Options.parse(options), {"1": 2}, {"1": 10}) == 8
    frame = spark.read.format("replview").options(**options).load()
    assert [row.asDict() for row in frame.select("id", "_commit_version").collect()] == [
        {name: row[name] for name in ("id", "_commit_version")} for row in whole
    ]
    for options in ({}, {"archive": "/nowhere"}, {"to_lsn": str(lsns[2])}):
        with pytest.raises(StoreProblem) as caught:
            read(store_dsn, relation="public.t", **options)
        assert "deleted commit_seq 1 to 6 of" in str(caught.value)
        assert "failOnDataLoss=false" in str(caught.value)
    # A read that starts at the first kept transaction needs no deleted one.
    assert read(store_dsn, relation="public.t", from_lsn=str(lsns[6])) == whole[6:]
    with caplog.at_level(logging.WARNING, "replview.spark"):
        assert read(store_dsn, relation="public.t", failOnDataLoss="false") == whole[6:]
    assert "deleted commit_seq 1 to 6 of" in caplog.text

    [manifest] = Path(root).glob("*/*/_manifests/*2-*4-*.json")
    manifest.unlink()
    with pytest.raises(StoreProblem, match=r"deleted commit_seq 3 to 4 .*archive .* does not have"):
        read(store_dsn, relation="public.t", archive=root)
    rest = read(store_dsn, relation="public.t", archive=root, failOnDataLoss="false")
    assert rest == [*whole[:2], *whole[4:]]
    with pytest.raises(StoreProblem, match="failOnDataLoss is true or false"):
        read(store_dsn, failOnDataLoss="no")


@pytest.mark.own_jvm
def test_a_stream_goes_on_where_it_stopped_through_days_that_are_archived_and_deleted(
    source, record, spark, store_dsn: str, archived, tmp_path: Path, monkeypatch
) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    recording = record(source)

    def write(first: int, last: int) -> None:
        source.run(*[f"INSERT INTO t VALUES ({n}, 'v{n}')" for n in range(first, last)])
        recording.caught_up()

    def run(**options: str) -> list[int]:
        return stream_by(spark, tmp_path, 7, dsn=store_dsn, relation="public.t", **options)

    write(0, 5)
    assert run() == [5]
    write(5, 20)
    age(4)
    write(20, 30)
    recording.end()
    monkeypatch.setattr(archive, "MOST_TRANSACTIONS", 8)
    root = archived()
    drop_oldest()
    assert Transaction.objects.count() == 10

    with pytest.raises((PySparkException, reading.StoreProblem)) as caught:
        run()
    assert "retention deleted commit_seq 6 to" in str(caught.value)
    assert run(archive=root) == [7, 7, 7, 4]
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("_commit_seq", "_seq").collect()
    with source.connect() as connected:
        rows = connected.execute("SELECT id, v FROM t ORDER BY id").fetchall()
    assert [(row.id, row.v) for row in found] == rows
    assert [row._commit_seq for row in found] == [*range(1, 31)]
    with reading.connect(store_dsn) as store:
        assert reading.resolve(store, reading.SliceRequest()).through_seq == 30
