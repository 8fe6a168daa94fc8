"""The programs run as they are printed, and give an export's changes in their order."""

import orjson
import pytest

from replview.parquet import reading
from replview.parquet.slices import SliceTable, TableVersion
from replview.parquet.writing.datasets import table_document
from replview.parquet.writing.exporting import export
from replview.parquet.writing.targets import Target
from replview.spark.reading_programs import below
from replview.spark.snippets import snippets
from tests.spark.printed_programs import ODD, as_arrow, run, statements

_COLUMNS = ({"name": "id", "type_oid": 23, "type": "integer", "typmod": -1},)
_VERSION = TableVersion(id=1, number=1, columns=_COLUMNS, key_columns=("id",))
_DOCUMENT = table_document(
    SliceTable(relation_id=1, oid=7, schema="public", table="t", versions=(_VERSION,)), None
)


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
def test_changes_are_read_in_their_order(source, recording, store_dsn, spark, tmp_path) -> None:
    for statement in statements()[:10]:
        source.run(statement)
    recording.caught_up()
    recording.end()
    with reading.connect(store_dsn) as store:
        part = reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))
        [table] = reading.tables_of(store, part)
        stored = [row for b in reading.read_typed(store, part, table) for row in b.to_pylist()]
    export(part, Target.of(str(tmp_path)), dsn=store_dsn)
    [schema] = tmp_path.glob("*/*/public.t/_schema.json")
    columns = ("id", "mail", "_change_type", "_commit_seq", "_seq")
    wanted = [tuple(row[name] for name in columns) for row in stored]
    assert max(row[0] for row in wanted) > 1 << 53
    for program in snippets(str(schema.parent), orjson.loads(schema.read_bytes())):
        rows = as_arrow(run(program, spark)).select(columns).to_pylist()
        assert [tuple(row.values()) for row in rows] == wanted, program.name


def test_a_quote_in_an_address_stays_in_it() -> None:
    found = {each.name: each.code for each in snippets("s3://b/'x", _DOCUMENT)}
    assert "'s3://b/''x/*/*.parquet'" in found["DuckDB"]


def test_options_of_an_address_stay_out_of_the_path() -> None:
    target = "s3://lake/out?endpoint_override=minio:9000&scheme=http&region=eu-1"
    folder = below(target, "shop/r-1/public.t")
    found = {each.name: each.code for each in snippets(folder, _DOCUMENT)}
    options = "endpoint_override=minio:9000&scheme=http&region=eu-1"
    assert f'read("s3://lake/out/shop/r-1/public.t?{options}")' in found["pandas"]
    assert "'s3://lake/out/shop/r-1/public.t/*/*.parquet'" in found["DuckDB"]
    assert "ENDPOINT 'minio:9000'" in found["DuckDB"]
    assert "USE_SSL false" in found["DuckDB"]
    assert '.parquet("s3a://lake/out/shop/r-1/public.t")' in found["Spark"]
    assert 'spark.conf.set("fs.s3a.endpoint", "http://minio:9000")' in found["Spark"]
