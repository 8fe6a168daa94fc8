"""The snippets run as they are: deletes, key changes, values not sent again, odd names."""

import ast
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replview.parquet.slices import SliceTable, TableVersion
from replview.parquet.writing.datasets import table_document
from replview.spark.snippets import snippets

ODD = "a \"b`.c'\\"
KEY = {"name": "id", "type_oid": 23, "type": "integer", "typmod": -1}
FIRST = TableVersion(id=1, number=1, columns=(KEY, {"name": ODD, "type": "text"}),
                     key_columns=("id",))  # fmt: skip
SECOND = TableVersion(
    id=2, number=2, key_columns=("id",),
    columns=({**KEY, "type_oid": 20, "type": "bigint"}, *FIRST.columns[1:],
             {"name": "big", "type": "text"}),
)  # fmt: skip


def table(*versions: TableVersion) -> SliceTable:
    return SliceTable(relation_id=1, oid=7, schema="public", table="t", versions=versions)


def change(seq: int, kind: str, key: int, version: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "id": key, ODD: f"x{key}", "big": "b", "_change_type": kind, "_commit_version": 10,
        "_lsn": "0/A", "_xid": 5, "_seq": seq, "_relation_version": version, "_derived": False,
        "_not_sent": [], "_pg_raw": {}, **more,
    }  # fmt: skip


CHANGES = [
    # A baseline of the same position as the first transaction.
    change(9, "insert", 1, _xid=None),
    change(1, "update_preimage", 1),
    change(1, "update_postimage", 1, **{ODD: "new"}),
    change(2, "insert", 2),
    change(3, "delete", 2, big=None),
    change(4, "insert", 3, big="kept"),
    # The key moves from 3 to 4, then what was not sent stays as it was.
    change(5, "update_preimage", 3, big=None, **{ODD: None}, _not_sent=[ODD, "big"]),
    change(5, "update_postimage", 4, big="kept"),
    change(6, "update_postimage", 4, big=None, _not_sent=["big"], **{ODD: "newer"}),
]
ROWS = [(0, "x0", None), (1, "new", "b"), (4, "newer", "kept")]


@pytest.fixture
def dataset(tmp_path):
    """Two slices' files: before a column was added and the key became wider, and after."""
    before, after = table(FIRST), table(FIRST, SECOND)
    for number, (schema, rows) in enumerate([
        (before.arrow_schema(), [change(1, "insert", 0, 1, _commit_version=1)]),
        (after.arrow_schema(), CHANGES),
    ]):  # fmt: skip
        folder = tmp_path / "out" / "public.t" / f"commit_date=2026-11-2{number}"
        folder.mkdir(parents=True)
        named = [{name: row.get(name) for name in schema.names} for row in rows]
        for row in named:
            row["_pg_raw"] = []
        pq.write_table(pa.Table.from_pylist(named, schema), folder / "part-1-2.zstd.parquet")
    document = table_document(after, table_document(before, None))
    destination = str(tmp_path / "copy")
    return {
        each.name: each.text
        for each in snippets(str(tmp_path / "out" / "public.t"), document, destination)
    }, destination


def as_tuples(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row[ODD], row["big"]) for row in rows)


#: Where only the latest row counts, what it did not send is unknown.
LATEST = [*ROWS[:2], (4, "newer", None)]


def run(text: str, **names: Any) -> dict[str, Any]:
    exec(compile(text, "snippet", "exec"), names)
    return names


def test_pandas_and_polars(dataset) -> None:
    pytest.importorskip("polars")
    texts, _ = dataset
    frame = run(texts["pandas"])["rows"]
    assert as_tuples(frame.astype(object).where(frame.notna(), None).to_dict("records")) == LATEST
    assert as_tuples(run(texts["polars"])["rows"].to_dicts()) == LATEST


def test_duckdb(dataset) -> None:
    duckdb = pytest.importorskip("duckdb")
    texts, _ = dataset
    with duckdb.connect() as session:
        assert as_tuples(session.sql(texts["duckdb"]).to_arrow_table().to_pylist()) == LATEST


def test_deltalake_twice(dataset) -> None:
    deltalake = pytest.importorskip("deltalake")
    texts, destination = dataset
    for _ in range(2):
        run(texts["deltalake"])
        found = pa.table(deltalake.DeltaTable(destination).to_pyarrow_table())
        assert as_tuples(found.to_pylist()) == ROWS


@pytest.mark.slow
def test_spark_and_its_merges(dataset, spark) -> None:
    texts, _ = dataset
    rows = run(texts["spark"], spark=spark)["rows"]
    assert as_tuples(rows.toArrow().to_pylist()) == LATEST
    parser = spark._jsparkSession.sessionState().sqlParser()
    for kind in ("delta", "iceberg"):
        calls = [node for node in ast.walk(ast.parse(texts[kind])) if isinstance(node, ast.Call)]
        statements = [c.args[0].value for c in calls if getattr(c.func, "attr", "") == "sql"]
        plans = [parser.parsePlan(each).toString() for each in statements]
        assert ["CreateTable" in plans[0], "MergeIntoTable" in plans[1]] == [True, True]
        # What is merged, too, without the target that no engine here has.
        using = statements[1].split("USING (", 1)[1].split(") AS s ON", 1)[0]
        merged = {row["id"]: row for row in spark.sql(using).toArrow().to_pylist()}
        assert merged[4]["big"] == {"v": "kept"}
        assert (merged[2]["_last"], merged[3]["_last"]) == ("delete", "update_preimage")


def test_a_table_without_a_key_can_be_read(tmp_path) -> None:
    keyless = TableVersion(id=1, number=1, columns=FIRST.columns)
    found = snippets("s3://b/'x", table_document(table(keyless), None))
    assert [each.name for each in found] == ["pandas", "polars", "duckdb", "spark"]
    assert "'s3://b/''x/*/*.parquet'" in found[2].text
