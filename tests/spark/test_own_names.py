"""A table whose columns have all the names that files, folders and readers have for their own."""

import datetime as dt
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pyarrow.dataset as pads
import pytest
from psycopg import sql

from replview.parquet import reading
from replview.parquet.slice_schemas import CHANGE_FIELDS
from replview.parquet.writing.exporting import export
from replview.parquet.writing.targets import Target
from replview.spark.history.datasets import Dataset
from replview.spark.history.replay_piece import ADDED, PLACE
from replview.spark.history.snapshots import as_of

pytestmark = pytest.mark.slow

NAMES = (
    *(field.name for field in CHANGE_FIELDS), "commit_date", "Commit_Date", "_stream", "_rank",
    "_interval", "_gone", "_next", "_epoch", "_unknown", "_key0", "_known0", "_number", "_begins",
    "_next_gone", *PLACE, *ADDED.names, "key", "row", "is_carried", "nameless", "digest0", "value0",
    "piece",
)  # fmt: skip
#: Each once, as SQL takes them for different ones.
COLUMNS = tuple(dict.fromkeys(NAMES))
LONG = "long" * 3000


def held(source: Any) -> list[dict[str, Any]]:
    """The source's own rows."""
    with source.connect(row_factory=psycopg.rows.dict_row) as connection:
        return connection.execute("SELECT * FROM t ORDER BY id").fetchall()


@pytest.fixture
def written(source, record, store_dsn, tmp_path) -> Path:
    """A row, updated without its long value, and one more."""
    kinds = {name: sql.SQL("date" if name == "commit_date" else "text") for name in COLUMNS}
    columns = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), kind) for name, kind in kinds.items()
    )
    values = ["2020-01-01" if name == "commit_date" else f"mine of {name}" for name in COLUMNS]
    with source.connect() as connection:
        connection.execute(sql.SQL("CREATE TABLE t (id int PRIMARY KEY, {})").format(columns))
        connection.execute('ALTER TABLE t ALTER "_seq" SET STORAGE EXTERNAL')
        recording = record(source)
        for key in (1, 2):
            literals = sql.SQL(", ").join(sql.Literal(value) for value in values)
            connection.execute(sql.SQL("INSERT INTO t VALUES ({}, {})").format(key, literals))
        connection.execute('UPDATE t SET "_seq" = %s WHERE id = 1', [LONG])
        connection.execute("UPDATE t SET \"_xid\" = 'other' WHERE id = 1")
    recording.caught_up()
    recording.end()
    with reading.connect(store_dsn) as store:
        part = reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))
    export(part, Target.of(str(tmp_path / "out")), dsn=store_dsn)
    [schema] = (tmp_path / "out").glob("*/*/public.t/_schema.json")
    return schema.parent


def on_source(rows: list[dict[str, Any]], names: dict[str, str]) -> list[dict[str, Any]]:
    """Rows of a file by their columns' names on the source; texts of dates as dates."""
    found = []
    for row in rows:
        mine = {source: row[name] for name, source in names.items()}
        day = mine["commit_date"]
        mine["commit_date"] = getattr(day, "date", lambda day=day: day)()
        found.append(mine)
    return found


@pytest.mark.own_jvm
def test_every_engine_tells_them_apart(written, source, spark, tmp_path) -> None:
    duckdb, pandas, polars = map(pytest.importorskip, ("duckdb", "pandas", "polars"))
    document = orjson.loads((written / "_schema.json").read_bytes())
    columns = document["columns"]
    names = {each["name"]: each["source_name"] for each in columns if "source_name" in each}
    assert [names["id"], *names.values()] == ["id", "id", *COLUMNS]
    every = [each["name"] for each in (*columns, *document["partition_columns"])]
    assert len({name.casefold() for name in every}) == len(every)

    fields = ", ".join(f"`{each['name']}` {each['type']}" for each in columns)
    files = f"{written}/*/*.parquet"
    found = {
        "arrow": pads.dataset(written, partitioning="hive").to_table().to_pylist(),
        "duckdb": duckdb.sql(
            f"SELECT * FROM read_parquet('{files}', hive_partitioning = true)"
        ).to_arrow_table().to_pylist(),
        "pandas": pandas.read_parquet(written).to_dict("records"),
        "polars": polars.read_parquet(files, hive_partitioning=True).to_dicts(),
        "spark": spark.read.schema(f"{fields}, commit_date date").parquet(str(written))
        .toArrow().to_pylist(),
    }  # fmt: skip
    today = dt.datetime.now(tz=dt.UTC).date()
    first, second = held(source)
    for engine, rows in found.items():
        rows.sort(key=lambda row: (row["_commit_seq"], row["_seq"]))
        told = on_source(rows, names)
        assert told[1] == second, engine
        assert told[2]["_seq"] == LONG, engine
        assert told[3] == {**first, "_seq": None}, engine
        assert list(rows[3]["_not_sent"]) == ["_seq"], engine
        days = {str(row["commit_date"])[:10] for row in rows}
        assert days <= {str(today), str(today - dt.timedelta(days=1))}, engine
        assert [row["_commit_seq"] for row in rows] == [1, 2, 3, 4], engine

    dataset = Dataset.find(str(tmp_path / "out"), "public.t")
    rows = [row.asDict() for row in as_of(spark, dataset).frame.orderBy("id").collect()]
    own = {column.name: column.source_name for column in dataset.columns}
    assert on_source(rows, own) == [first, second]
