"""Records as Parquet files: what pyarrow reads back is what was recorded, typed."""

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replview.features.downloads import typed_records
from replview.features.downloads.typed_records import TypedRecords
from replview.parquet.writing import row_groups as groups
from replview.parquet.writing.row_groups import row_groups, write_file
from replview.parquet.writing.targets import Target

COLUMNS = [
    {"name": "id", "type_oid": 23, "typmod": -1, "type": "integer", "key": True},
    {"name": "amount", "type_oid": 1700, "typmod": ((12 << 16) | 2) + 4, "type": "numeric(12,2)"},
    {"name": "note", "type_oid": 25, "typmod": -1, "type": "text"},
]


def record(seq: int, op: str = "insert", old=None, new=None, **more) -> dict:
    return {
        "slot": "replview", "incarnation": 1, "commit_seq": 1, "xid": 757, "gid": None,
        "commit_lsn": "1/0", "end_lsn": "1/8", "commit_time": "2026-11-20T07:57:11.369827Z",
        "origin": None, "actor": "alice", "context": {"request": 1}, "seq": seq,
        "lsn": "0/FF", "subxid": None, "op": op, "schema": "public", "table": "orders",
        "relation_oid": 16384, "version": 1, "key": None, "old": old, "new": new,
        "not_sent": [], **more,
    }  # fmt: skip


def row(number: int, amount: str = "1.50", note: str | None = "x") -> dict:
    return {"id": str(number), "amount": amount, "note": note}


@pytest.fixture
def writer(tmp_path) -> Iterator[TypedRecords]:
    writer = TypedRecords(tmp_path)
    yield writer
    writer.close()


def written(records: TypedRecords, folder: Path) -> list[Path]:
    target, paths = Target.of(str(folder)), []
    for file in records.files():
        write_file(target, file.name, file.schema, row_groups(file.batches, file.schema))
        paths.append(folder / file.name)
    return paths


def read(writer: TypedRecords, place: int = 0) -> tuple[pa.Schema, list[dict]]:
    table = pq.read_table(written(writer, writer._folder)[place])
    return table.schema, table.to_pylist(maps_as_pydicts="strict")


def test_a_table_is_typed_and_each_row_tells_its_change(writer) -> None:
    writer.add(record(1, new=row(42)), COLUMNS)
    schema, (found,) = read(writer)
    assert schema.field("id").type == pa.int32()
    assert schema.field("amount").type == pa.decimal128(12, 2)
    assert found == {
        "id": 42, "amount": Decimal("1.50"), "note": "x", "_change_type": "insert",
        "_commit_version": 1 << 32,
        "_commit_timestamp": dt.datetime(2026, 11, 20, 7, 57, 11, 369827, dt.UTC),
        "_lsn": "0/FF", "_xid": 757, "_commit_seq": 1, "_seq": 1, "_actor": "alice",
        "_relation_version": 1, "_derived": False, "_not_sent": [], "_pg_raw": {},
    }  # fmt: skip


def test_an_update_has_the_row_before_where_it_is_known(writer) -> None:
    writer.add(record(1, "update", old=row(1, "1"), new=row(1, "2")), COLUMNS, whole_old=True)
    writer.add(record(2, "update", old={"id": "1"}, new=row(2, "2")), COLUMNS)
    writer.add(record(3, "update", new=row(2, "4")), COLUMNS, derived={"id": "2", "amount": "3"})
    _, rows = read(writer)
    told = [
        (r["_seq"], r["_change_type"], r["_derived"], r["amount"], r["_not_sent"]) for r in rows
    ]
    assert told == [
        (1, "update_preimage", False, Decimal(1), []),
        (1, "update_postimage", False, Decimal(2), []),
        (2, "update_preimage", False, None, ["amount", "note"]),
        (2, "update_postimage", False, Decimal(2), []),
        (3, "update_preimage", True, Decimal(3), ["note"]),
        (3, "update_postimage", False, Decimal(4), []),
    ]


def test_what_a_type_cannot_hold_is_kept_as_text(writer) -> None:
    writer.add(record(1, new=row(1, "NaN")), COLUMNS)
    writer.add(record(2, new={**row(2), "note": {"$masked": True}}), COLUMNS)
    writer.add(record(3, "delete", old={"id": "3"}, not_sent=["amount", "note"]), COLUMNS)
    _, (first, second, third) = read(writer)
    assert (first["amount"], first["_pg_raw"]) == (None, {"amount": "NaN"})
    assert json.loads(second["_pg_raw"]["note"]) == {"$masked": True}
    assert (third["_change_type"], third["_not_sent"]) == ("delete", ["amount", "note"])


def test_shapes_within_a_slice_become_one_that_holds_them_all(writer) -> None:
    wider = [{**COLUMNS[0], "type_oid": 20, "type": "bigint"}, {**COLUMNS[2], "name": "extra"}]
    writer.add(record(1, new=row(1)), COLUMNS)
    writer.add(record(2, new={"id": "9999999999", "extra": "e"}, version=2, table="sales"), wider)
    schema, rows = read(writer)
    assert schema.names[:4] == ["id", "extra", "amount", "note"]
    assert schema.field("id").type == pa.int64()
    assert [r["id"] for r in rows] == [1, 9999999999]
    assert json.loads(schema.metadata[b"replview"])["table"] == "public.sales"


def test_tables_transactions_and_events_have_files_of_their_own(writer) -> None:
    writer.add(record(1, new=row(1)), COLUMNS)
    writer.add(record(2, new=row(1), relation_oid=9, table="a/b.c"), COLUMNS)
    writer.add(record(3, new=row(1), relation_oid=10, table="a/b.c"), COLUMNS)
    writer.add(record(4, "truncate", cascade=True, restart_identity=False), COLUMNS)
    outside = {"relation_oid": None, "commit_seq": 2, "commit_lsn": None, "commit_time": None}
    told = {"prefix": "p", "content": "c", "transactional": False}
    writer.add(record(1, "message", **outside, **told), [])
    paths = written(writer, writer._folder)
    assert [path.name for path in paths] == [
        "public.orders.parquet", "public.a%2Fb%2Ec.parquet", "public.a%2Fb%2Ec-10.parquet",
        "_transactions.parquet", "_events.parquet",
    ]  # fmt: skip
    transactions, events = (pq.read_table(path).to_pylist() for path in paths[-2:])
    assert [(t["commit_seq"], t["context"]) for t in transactions] == [
        (1, '{"request":1}'), (2, '{"request":1}')
    ]  # fmt: skip
    assert [(e["op"], e["cascade"], e["content"]) for e in events] == [
        ("truncate", True, None), ("message", None, "c")
    ]  # fmt: skip
    assert events[1]["_commit_version"] is None


def test_a_column_named_as_one_of_ours_is_another_in_the_file(writer) -> None:
    writer.add(record(1, new={"_seq": "7"}), [{"name": "_seq", "type_oid": 23}])
    _, (found,) = read(writer)
    assert (found["_seq_"], found["_seq"]) == (7, 1)


def test_the_same_slice_gives_the_same_bytes(tmp_path) -> None:
    made = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        writer = TypedRecords(folder)
        for seq in range(1, 50):
            writer.add(record(seq, new=row(seq)), COLUMNS)
        made.append(written(writer, folder)[0].read_bytes())
        writer.close()
    assert made[0] == made[1]


def test_memory_holds_a_batch_and_groups_prune(writer, monkeypatch) -> None:
    monkeypatch.setattr(typed_records, "BATCH_LINES", 100)
    monkeypatch.setattr(groups, "GROUP_ROWS", 250)
    for seq in range(1, 1001):
        writer.add(record(seq, new=row(seq)), COLUMNS)
    file = pq.ParquetFile(written(writer, writer._folder)[0])
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [
        250, 250, 250, 250
    ]  # fmt: skip
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
