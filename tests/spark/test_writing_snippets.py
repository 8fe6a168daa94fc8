"""The programs run as they are printed, over a source's worst, and give the source's own table."""

import decimal
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from replview.parquet import reading
from replview.parquet.pg_values import pg_text
from replview.parquet.slice_schemas import TIMESTAMPTZ
from replview.parquet.slices import SliceTable, TableVersion
from replview.parquet.writing.datasets import table_document
from replview.parquet.writing.exporting import export
from replview.parquet.writing.targets import Target
from replview.spark.reading_programs import below
from replview.spark.snippets import snippets, why_no_table
from tests.spark.printed_programs import LONG, ODD, as_arrow, run, statements
from tests.support.baselines import take

PROGRAMS = ("pandas", "polars", "duckdb", "spark", "delta", "iceberg")


def held(source: Any) -> dict[str, dict[str, str | None]]:
    """The source's own rows, in its own words, by mail."""
    with source.connect(row_factory=psycopg.rows.dict_row) as connection:
        names = [c.name for c in connection.execute("SELECT * FROM t LIMIT 0").description or ()]
        texts = sql.SQL(", ").join(
            sql.SQL("{0}::text AS {0}").format(sql.Identifier(name)) for name in names
        )
        found = connection.execute(sql.SQL("SELECT {} FROM t").format(texts)).fetchall()
    return {row["mail"]: row for row in found}


def exported(store_dsn: str, slot: str, root: Path, **chosen: Any) -> tuple[str, dict, list]:
    """The table's folder, what it publishes, and the manifest's tables, of one more slice."""
    with reading.connect(store_dsn) as store:
        part = reading.resolve(store, reading.SliceRequest(slot=slot, **chosen))
    manifest = export(part, Target.of(str(root)), dsn=store_dsn)
    [schema] = root.glob("*/*/public.t/_schema.json")
    document = orjson.loads(schema.read_bytes())
    return str(schema.parent), document, list(manifest.document["tables"])


def in_words(table: pa.Table) -> tuple[dict[str, dict[str, str | None]], dict[str, list[str]]]:
    """Rows as the source would write them, by mail; and what is not known of each."""
    rows, unknown = {}, {}
    for row in table.to_pylist():
        raw = dict(row.pop("_pg_raw") or [])
        mail = row["mail"]
        assert mail not in rows, "a row is there twice"
        missing = row.pop("_unknown")
        if missing:
            unknown[mail] = list(missing)
        rows[mail] = {
            name: raw.get(name, _text(value, table.schema.field(name).type))
            for name, value in row.items()
        }
    return rows, unknown


def _text(value: Any, kind: pa.DataType) -> str | None:
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    return pg_text(value, TIMESTAMPTZ if pa.types.is_timestamp(kind) else kind)


@pytest.fixture
def copies(tmp_path, monkeypatch) -> Path:
    """Return the folder of Iceberg's catalogue and of Delta's table."""
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__WAREHOUSE", f"file://{tmp_path}/warehouse")
    return tmp_path


def copied(name: str, copies: Path) -> pa.Table:
    if name == "delta":
        deltalake = pytest.importorskip("deltalake")
        return pa.table(deltalake.DeltaTable(str(copies / "copy")).to_pyarrow_table())
    catalog = pytest.importorskip("pyiceberg.catalog").load_catalog("default")
    return catalog.load_table("default.t").scan().to_arrow()


@pytest.fixture
def recording(source, record):
    odd = '"' + ODD.replace('"', '""') + '"'
    source.run(
        f"CREATE TABLE t (id bigint PRIMARY KEY, mail text NOT NULL, {odd} text, big text,"
        " price numeric(12,2), at timestamptz)",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        "CREATE UNIQUE INDEX t_mail ON t (mail)",
        "INSERT INTO t (id, mail) VALUES (-1, 'before the record'), (-2, 'and more')",
    )
    return record(source)


@pytest.mark.slow
def test_every_program_gives_the_sources_table(source, recording, store_dsn, spark, copies) -> None:
    *first, last = statements()
    for statement in first:
        source.run(statement)
        # Read later, the catalog does not tell whether a shape is the same.
        recording.caught_up()
    out = copies / "out"
    folder, _, _ = exported(store_dsn, recording.slot.name, out, before="full", through_seq=9)
    source.run(last)
    recording.caught_up()
    recording.end()
    folder, document, tables = exported(
        store_dsn, recording.slot.name, out, before="full", after_seq=9
    )
    wanted = held(source)
    assert len(wanted) > 20
    # Known by another key since, a row cannot be followed back: what was not sent is unknown.
    not_followed = {mail for mail, row in wanted.items() if row["id"] in ("16", "17", "19", "1000")}
    destination = str(copies / "copy")
    found = snippets(folder, document, destination)
    programs = {each.name: each for each in found if each.purpose == "table"}
    assert [*programs] == [f"{name}-table" for name in PROGRAMS]
    for name in PROGRAMS:
        if name == "iceberg":
            pytest.importorskip("pyiceberg")
            [program] = [e for e in snippets(folder, document, "t") if e.name == "iceberg-table"]
        else:
            program = programs[f"{name}-table"]
        for _ in range(2 if name in ("delta", "iceberg") else 1):
            rows = run(program, spark)
        table = copied(name, copies) if name in ("delta", "iceberg") else as_arrow(rows)
        told, unknown = in_words(table)
        # The value that older rows have in a later column is unknown: its default, or NULL.
        assert {name for names in unknown.values() for name in names} == {"big", "extra"}, name
        assert {mail for mail, names in unknown.items() if "big" in names} == not_followed, name
        shown = {
            mail: {**row, **dict.fromkeys(unknown.get(mail, ()))} for mail, row in wanted.items()
        }
        assert told == shown, name
    assert tables[0]["unknown"] >= len(not_followed)


@pytest.mark.slow
def test_what_is_not_known_is_named(source, recording, store_dsn, tmp_path) -> None:
    """Programs name the values that were not sent; full images count rows without a record."""
    source.run(
        f"INSERT INTO t (id, mail, big) VALUES (1, 'a', {LONG})",
        "UPDATE t SET price = 1 WHERE id = 1",
        "DELETE FROM t WHERE id = -1",
    )
    recording.caught_up()
    wanted = held(source)
    folder, document, _ = exported(store_dsn, recording.slot.name, tmp_path / "sent")
    for program in snippets(folder, document, events=False):
        if program.name in ("pandas-table", "polars-table", "duckdb-table"):
            assert "--images full" in program.text
            told, unknown = in_words(as_arrow(run(program)))
            assert unknown == {"a": ["big"]}, program.name
            assert told == {"a": {**wanted["a"], "big": None}}, program.name
    # Nobody told of the rows that were there before; a deleted one has but its key.
    _, _, tables = exported(store_dsn, recording.slot.name, tmp_path / "full", before="full")
    assert tables[0]["unknown"] == 1

    source.run("ALTER TABLE t REPLICA IDENTITY USING INDEX t_mail", "DELETE FROM t WHERE id = 1")
    recording.caught_up()
    recording.end()
    folder, document, _ = exported(store_dsn, recording.slot.name, tmp_path / "more")
    assert [each.purpose for each in snippets(folder, document)] == ["changes"] * 4
    assert "--images full" in why_no_table([(folder, document)])
    # The deleted row without its record cannot be found by its new key.
    folder, document, _ = exported(
        store_dsn, recording.slot.name, tmp_path / "whole", before="full"
    )
    for program in snippets(folder, document, events=False):
        if program.name in ("pandas-table", "duckdb-table"):
            with pytest.raises(Exception, match="of which row they are"):
                run(program)


@pytest.mark.slow
def test_a_baseline_is_where_the_table_begins(source, recording, store_dsn, tmp_path) -> None:
    source.run("INSERT INTO t (id, mail) VALUES (1, 'a'), (2, 'b')", "DELETE FROM t WHERE id = -1")
    recording.caught_up()
    take(recording, "t")
    source.run("UPDATE t SET price = 2 WHERE id IN (1, -2)")
    recording.caught_up()
    recording.end()
    folder, document, _ = exported(store_dsn, recording.slot.name, tmp_path, before="full")
    for program in snippets(folder, document, events=False):
        if program.name in ("pandas-table", "polars-table", "duckdb-table"):
            assert in_words(as_arrow(run(program))) == (held(source), {}), program.name


@pytest.mark.slow
def test_changes_are_read_in_their_order(source, recording, store_dsn, spark, tmp_path) -> None:
    for statement in statements()[:10]:
        source.run(statement)
    recording.caught_up()
    recording.end()
    folder, document, _ = exported(store_dsn, recording.slot.name, tmp_path)
    with reading.connect(store_dsn) as store:
        part = reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))
        [table] = reading.tables_of(store, part)
        stored = [row for b in reading.read_typed(store, part, table) for row in b.to_pylist()]
    columns = ("id", "mail", "_change_type", "_commit_seq", "_seq")
    wanted = [tuple(row[name] for name in columns) for row in stored]
    assert max(row[0] for row in wanted) > 1 << 53
    for program in snippets(folder, document):
        if program.purpose == "changes":
            rows = as_arrow(run(program, spark)).select(columns).to_pylist()
            assert [tuple(row.values()) for row in rows] == wanted, program.name


def test_a_table_without_a_key_can_be_read() -> None:
    columns = ({"name": "id", "type_oid": 23, "type": "integer", "typmod": -1},)
    keyless = TableVersion(id=1, number=1, columns=columns)
    table = SliceTable(relation_id=1, oid=7, schema="public", table="t", versions=(keyless,))
    found = snippets("s3://b/'x", table_document(table, None))
    assert [each.name for each in found] == ["pandas", "polars", "duckdb", "spark"]
    assert "'s3://b/''x/*/*.parquet'" in found[2].text


def test_options_of_an_address_stay_out_of_the_path() -> None:
    target = "s3://lake/out?endpoint_override=minio:9000&scheme=http&region=eu-1"
    folder = below(target, "shop/r-1/public.t")
    columns = ({"name": "id", "type_oid": 23, "type": "integer", "typmod": -1},)
    version = TableVersion(id=1, number=1, columns=columns, key_columns=("id",))
    table = SliceTable(relation_id=1, oid=7, schema="public", table="t", versions=(version,))
    found = {e.name: e.text for e in snippets(folder, table_document(table, None))}
    options = "endpoint_override=minio:9000&scheme=http&region=eu-1"
    assert f'read("s3://lake/out/shop/r-1/public.t?{options}")' in found["pandas-table"]
    assert f'read("s3://lake/out/shop/r-1/events?{options}")' in found["pandas-table"]
    assert "'s3://lake/out/shop/r-1/public.t/*/*.parquet'" in found["duckdb-table"]
    assert "ENDPOINT 'minio:9000'" in found["duckdb-table"]
    assert "USE_SSL false" in found["duckdb-table"]
    assert '.parquet("s3a://lake/out/shop/r-1/public.t")' in found["spark-table"]
    assert 'spark.conf.set("fs.s3a.endpoint", "http://minio:9000")' in found["spark-table"]
