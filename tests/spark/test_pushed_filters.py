"""Filters of Spark narrow what is read, and lose no row that satisfies them."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from replview.spark.data_source import ReplviewDataSource
from replview.store.read.rows import signed_hash
from replview.store.retention.tidy import make_partitions
from tests.spark.awkward import as_rows
from tests.support.history_rows import History, insert

DAY = dt.date(2026, 11, 21)
MIDNIGHT = dt.datetime.combine(DAY, dt.time(), tzinfo=dt.UTC)
Row = dict[str, Any]


def rows_of(dsn: str, filters: list[Filter], **options: str) -> list[Row]:
    source = ReplviewDataSource({"dsn": dsn, "pushdown": "true", **options})
    reader = source.reader(source.schema())
    assert list(reader.pushFilters(filters)) == filters
    return as_rows([batch for part in reader.partitions() for batch in reader.read(part)])


def update(old: str, new: str, **more: Any) -> Row:
    former = {"old": {"id": old}, "old_key_hash": signed_hash([old])} if old != new else {}
    return {"op": "U", "new": {"id": new, "status": "paid"}, "key_hash": signed_hash([new]),
            **former, **more}  # fmt: skip


@pytest.fixture
def history(transactional_db) -> History:
    """Rows that move to other keys, have none, are truncated; a table that is renamed."""
    make_partitions()
    history = History()
    items = history.table("items", 16385, ["id", "name"])

    def of(version: Any, *counts: int) -> dict[str, list[int]]:
        return {str(version.relation_id): [*counts]}

    def commit(
        change: Row, *counts: int, version: Any = None, hours: int = 0, actor: str | None = None
    ) -> None:
        version = version or history.orders
        at = MIDNIGHT + dt.timedelta(hours=hours)
        history.commit(
            {**change, "version": version},
            relations=of(version, *counts),
            commit_time=at,
            actor=actor,
        )

    for number in (1, 2, 3):
        commit(insert(number), 1, 0, 0, 0, hours=-1)
    commit(update("1", "7"), 0, 1, 0, 0)
    commit(update("2", "2"), 0, 1, 0, 0, hours=1, actor="bob")
    commit({**insert(4), "key_hash": None}, 1, 0, 0, 0, hours=24)
    commit({"op": "T", "new": {"cascade": False}}, 0, 0, 0, 1, hours=24)
    commit(insert(1), 1, 0, 0, 0, hours=25)
    commit({**insert(5), "new": {"id": "5", "name": "x"}}, 1, 0, 0, 0, version=items)
    renamed = history.table("articles", 16385, ["id", "name"], number=2)
    type(renamed.relation).objects.filter(pk=renamed.relation_id).update(table="articles")
    commit({**insert(6), "new": {"id": "6", "name": "y"}}, 1, 0, 0, 0, version=renamed, hours=30)
    history.commit({"op": "M", "new": {"prefix": "p", "content": "x"}}, state="message")
    return history


ORDERS = {"relation": "public.orders", "operations": "insert,update,delete,truncate"}
#: Options, filters, what the filters mean, and the number of rows that are read.
CASES: list[tuple[dict[str, str], list[Filter], Callable[[Row], bool], int]] = [
    (ORDERS, [EqualTo(("id",), "1")], lambda row: row["id"] == "1", 6),
    (ORDERS, [EqualTo(("ID",), "7")], lambda row: row["id"] == "7", 4),
    (ORDERS, [In(("id",), ("2", "3", None))], lambda row: row["id"] in ("2", "3"), 5),
    (ORDERS, [EqualTo(("id",), "nowhere")], lambda row: False, 2),
    (ORDERS, [IsNotNull(("id",)), EqualTo(("id",), "4")], lambda row: row["id"] == "4", 2),
    # The key of another row, and a column that is none.
    (ORDERS, [EqualTo(("status",), "paid")], lambda row: row["status"] == "paid", 9),
    (ORDERS, [EqualTo(("id",), "1"), EqualTo(("_change_type",), "insert")],
     lambda row: row["id"] == "1" and row["_change_type"] == "insert", 3),
    (ORDERS, [EqualTo(("_change_type",), "truncate")],
     lambda row: row["_change_type"] == "truncate", 1),
    (ORDERS, [EqualTo(("commit_date",), DAY)], lambda row: row["commit_date"] == DAY, 3),
    (ORDERS, [GreaterThan(("commit_date",), DAY)], lambda row: row["commit_date"] > DAY, 3),
    ({}, [LessThan(("commit_date",), DAY)], lambda row: row["commit_date"] < DAY, 4),
    ({}, [LessThanOrEqual(("commit_date",), DAY)], lambda row: row["commit_date"] <= DAY, 7),
    ({}, [GreaterThanOrEqual(("commit_date",), DAY)], lambda row: row["commit_date"] >= DAY, 7),
    ({}, [EqualTo(("table",), "items")], lambda row: row["table"] == "items", 2),
    ({}, [EqualTo(("table",), "articles"), EqualTo(("schema",), "public")],
     lambda row: row["table"] == "articles", 2),
    ({}, [EqualTo(("schema",), "public")], lambda row: row["schema"] == "public", 10),
    ({}, [In(("table",), ("orders", "nowhere"))], lambda row: row["table"] == "orders", 8),
    ({}, [EqualTo(("table",), "nowhere")], lambda row: False, 11),
    ({"excluded": "public.orders"}, [EqualTo(("table",), "orders")], lambda row: False, 2),
    # The transaction with number n has xid 700 + n, and commits at LSN 1000 n + 900.
    (ORDERS, [GreaterThan(("_commit_version",), 5900)],
     lambda row: row["_commit_version"] > 5900, 3),
    (ORDERS, [LessThan(("_commit_version",), -1)], lambda row: False, 0),
    (ORDERS, [GreaterThanOrEqual(("_commit_version",), 1 << 70)], lambda row: False, 0),
    (ORDERS, [EqualTo(("_xid",), 704)], lambda row: row["_xid"] == 704, 2),
    (ORDERS, [EqualTo(("_xid",), -704)], lambda row: False, 0),
    (ORDERS, [EqualTo(("_actor",), "bob")], lambda row: row["_actor"] == "bob", 1),
    (ORDERS, [IsNull(("_actor",))], lambda row: row["_actor"] is None, 8),
    (ORDERS, [In(("_actor",), ("bob", None))], lambda row: row["_actor"] == "bob", 1),
    (ORDERS, [Not(EqualTo(("_actor",), "bob"))], lambda row: False, 9),
    (ORDERS, [EqualNullSafe(("_actor",), None)], lambda row: row["_actor"] is None, 9),
    (ORDERS, [GreaterThan(("_commit_timestamp",), MIDNIGHT)],
     lambda row: row["_commit_timestamp"] > MIDNIGHT, 4),
    ({}, [GreaterThan(("commit_seq",), 9)], lambda row: row["commit_seq"] > 9, 2),
    ({}, [EqualTo(("commit_seq",), -1)], lambda row: False, 0),
    ({}, [LessThan(("commit_seq",), 1 << 70)], lambda row: True, 11),
    ({}, [EqualTo(("op",), "message")], lambda row: row["op"] == "message", 1),
]  # fmt: skip


@pytest.mark.parametrize("rows_per_partition", ["1", "1000"])
def test_no_row_that_satisfies_the_filters_is_lost(
    history: History, store_dsn: str, subtests, rows_per_partition: str
) -> None:
    for options, filters, satisfies, number in CASES:
        words = {**options, "rowsPerPartition": rows_per_partition}
        with subtests.test(str(filters)):
            whole = rows_of(store_dsn, [], **words)
            found = rows_of(store_dsn, filters, **words)
            assert len(whole) == {"relation": 9, "excluded": 2}.get(next(iter(options), ""), 11)
            assert [row for row in found if satisfies(row)] == list(filter(satisfies, whole))
            assert len(found) == number


def test_a_masked_key_is_not_looked_for(history: History, store_dsn: str) -> None:
    masked = {"relation": "public.orders", "masked": '{"public.orders": ["id"]}'}
    found = rows_of(store_dsn, [EqualTo(("id",), "1")], **masked)
    assert found == rows_of(store_dsn, [], **masked)


def test_a_number_is_looked_for_by_its_text(history: History, store_dsn: str) -> None:
    version = history.orders
    version.columns[0] |= {"type_oid": 23, "type": "integer"}
    version.save()
    found = rows_of(store_dsn, [EqualTo(("id",), 7)], relation="public.orders")
    assert [(row["id"], row["_change_type"]) for row in found] == [
        (1, "update_preimage"), (7, "update_postimage"), (4, "insert"),
    ]  # fmt: skip
