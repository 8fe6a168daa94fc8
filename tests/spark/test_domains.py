"""Domains, and numeric of no precision, as typed columns."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from replview.parquet import reading
from replview.parquet.reading.connecting import StoreProblem
from replview.parquet.slices import Slice
from replview.parquet.writing.exporting import export
from replview.parquet.writing.targets import Target

TABLE = (
    "CREATE DOMAIN small AS int CHECK (VALUE < 100)",
    "CREATE DOMAIN smaller AS small",
    "CREATE DOMAIN price AS numeric(10,2)",
    "CREATE DOMAIN net AS price NOT NULL",
    "CREATE DOMAIN code AS text CHECK (VALUE <> '')",
    "CREATE DOMAIN anything AS numeric",
    "CREATE DOMAIN grid AS numeric(5,1)[]",
    """CREATE TABLE d (id int PRIMARY KEY, a small, b smaller, c price, d net, e code, f anything,
       g small[], h price[], i code[], j grid, k numeric, l numeric[])""",
)
ROW = """(1, 5, 6, 12345678.9, 0.5, 'x', 1.25, '{7,NULL}', '{1.5,2}', '{"a b",c}', '{1.5}', 2.500,
    '{0.125}')"""


@pytest.fixture
def whole(source, record, store_dsn: str) -> Slice:
    source.run(*TABLE)
    recording = record(source)
    source.run(f"INSERT INTO d VALUES {ROW}",
               "INSERT INTO d (id, d, f, k) VALUES (2, 1, 'NaN', 0.0001), (3, 1, 7, 1e35)",
               )  # fmt: skip
    recording.caught_up()
    recording.end()
    with reading.connect(store_dsn) as store:
        return reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))


def exported(part: Slice, root: Path, dsn: str) -> tuple[pa.Table, dict]:
    manifest = export(part, Target.of(str(root)), dsn=dsn)
    [table] = manifest.document["tables"]
    found = pads.dataset(root / table["dataset"], partitioning="hive").to_table()
    return found.sort_by("id"), table


def test_a_domain_is_what_it_is_over(whole: Slice, store_dsn: str, tmp_path: Path) -> None:
    found, _ = exported(whole, tmp_path, store_dsn)
    money = pa.decimal128(10, 2)
    types = {name: found.schema.field(name).type for name in "abcdefghijkl"}
    assert types == {
        "a": pa.int32(), "b": pa.int32(), "c": money, "d": money, "e": pa.string(),
        "f": pa.string(), "g": pa.list_(pa.int32()), "h": pa.list_(money),
        "i": pa.list_(pa.string()), "j": pa.list_(pa.decimal128(5, 1)), "k": pa.string(),
        "l": pa.list_(pa.string()),
    }  # fmt: skip
    row = found.slice(0, 1).to_pylist()[0]
    assert [row[name] for name in "abcdefghijkl"] == [
        5, 6, Decimal("12345678.90"), Decimal("0.50"), "x", "1.25", [7, None],
        [Decimal("1.50"), Decimal("2.00")], ["a b", "c"], [Decimal("1.5")], "2.500", ["0.125"],
    ]  # fmt: skip
    assert not row["_pg_raw"]


def test_numbers_of_no_precision_are_decimals_where_asked_for(
    whole: Slice, store_dsn: str, tmp_path: Path
) -> None:
    with reading.connect(store_dsn) as store:
        part = reading.resolve(store, reading.SliceRequest(slot=whole.slot, numeric_scale=3))
        with pytest.raises(StoreProblem, match="39 digits"):
            reading.resolve(store, reading.SliceRequest(slot=whole.slot, numeric_scale=39))
    assert Slice.from_json(part.to_json()) == part
    found, table = exported(part, tmp_path, store_dsn)
    decimal = pa.decimal128(38, 3)
    assert [found.schema.field(name).type for name in "fkl"] == [
        decimal,
        decimal,
        pa.list_(decimal),
    ]
    assert found["f"].to_pylist() == [Decimal("1.25"), None, Decimal(7)]
    assert found["k"].to_pylist() == [Decimal("2.5"), None, None]
    assert found["l"].to_pylist() == [[Decimal("0.125")], None, None]
    # A value that does not fit is stored as text beside the column, and counted.
    assert [dict(raw) for raw in found["_pg_raw"].to_pylist()] == [
        {}, {"f": "NaN", "k": "0.0001"}, {"k": "1" + 35 * "0"},
    ]  # fmt: skip
    assert table["unfit"] == 3
    # Found again by a later run, the files tell it, too.
    (tmp_path / f"{table['dataset']}/../_SUCCESS").resolve().unlink()
    assert exported(part, tmp_path, store_dsn)[1] == table
