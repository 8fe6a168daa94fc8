"""Rows of the data source beyond an export's: their day, and truncations among them."""

import datetime as dt
from typing import Any

import pytest
from psycopg import sql

from replview.parquet import reading
from replview.parquet.reading.places import PLACED_DAY
from replview.spark.data_source import ReplviewDataSource
from replview.store.models import Transaction
from replview.store.retention.tidy import make_partitions
from tests.spark.awkward import as_rows
from tests.support.history_rows import History, insert

_DAYS = sql.SQL("SELECT t.commit_seq, {} FROM transaction t WHERE t.commit_seq IS NOT NULL")


def rows_of(dsn: str, **options: str) -> list[dict[str, Any]]:
    source = ReplviewDataSource({"dsn": dsn, **options})
    schema = source.schema()
    assert schema.names[-1] == "commit_date"
    reader = source.reader(schema)
    return as_rows([batch for part in reader.partitions() for batch in reader.read(part)])


@pytest.fixture
def history(transactional_db) -> History:
    """Commits around a midnight of UTC, a record without a commit, and truncations."""
    make_partitions()
    history = History()
    midnight = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    history.commit(insert(1), commit_time=midnight - dt.timedelta(microseconds=1))
    history.commit(insert(2), commit_time=midnight)
    stored = midnight + dt.timedelta(days=3)
    message = {"op": "M", "new": {"prefix": "p", "content": "x"}}
    identifier = history.commit(message, state="message", commit_time=None)
    Transaction.objects.filter(pk=identifier).update(received_at=stored)
    truncated = {str(history.orders.relation_id): [0, 0, 0, 1]}
    fields = {"cascade": False, "restart_identity": False}
    for _ in range(2):
        history.commit({"op": "T", "new": fields}, commit_time=midnight, relations=truncated)
    history.commit(insert(1), commit_time=midnight)
    return history


def test_a_row_has_the_day_of_its_commit(history: History, store_dsn: str) -> None:
    with reading.connect(store_dsn) as store:
        days = dict(store.execute(_DAYS.format(PLACED_DAY)).fetchall())
    assert len(set(days.values())) == 3
    records = rows_of(store_dsn)
    assert {row["commit_seq"]: row["commit_date"] for row in records} == days
    typed = rows_of(store_dsn, relation="public.orders", columns="id")
    assert [(row["id"], row["commit_date"]) for row in typed] == [
        ("1", days[1]), ("2", days[2]), ("1", days[6]),
    ]  # fmt: skip


@pytest.mark.parametrize("before", ["sent", "derived", "full"])
def test_truncations_of_a_table_are_rows_where_they_are_asked_for(
    history: History, store_dsn: str, before: str
) -> None:
    typed = {"relation": "public.orders", "before": before}
    assert {row["_change_type"] for row in rows_of(store_dsn, **typed)} == {"insert"}
    found = rows_of(store_dsn, **typed, operations="insert,truncate", rowsPerPartition="1")
    kinds = ["insert", "insert", "truncate", "truncate", "insert"]
    assert [row["_change_type"] for row in found] == kinds
    assert [row["_commit_seq"] for row in found] == [1, 2, 4, 5, 6]
    for row in found[2:4]:
        assert [row[name] for name in ("id", "status", "note", "_not_sent")] == [None] * 4
        assert row["_pg_raw"] == {}
    assert found[0]["_not_sent"] == []
    only = rows_of(store_dsn, **typed, operations="truncate")
    assert only == found[2:4]
