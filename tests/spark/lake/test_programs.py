"""The printed programs open a lake's tables, with the same rows by every engine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as fs
import pytest

from replview.spark.lake.formats import FORMATS
from replview.spark.lake.programs import programs
from replview.spark.lake.tables import CHANGES, CURRENT
from replview.spark.quoting import address_options
from replview.spark.reading_programs import Program
from tests.spark.lake.conftest import MakeFeed
from tests.spark.printed_programs import as_arrow
from tests.support.object_store import Bucket
from tests.support.object_store import bucket as bucket  # a fixture
from tests.support.object_store import credentials as credentials  # a fixture
from tests.support.source_databases import SourceDatabase

DOCS = Path(__file__).parents[3] / "docs" / "lake.md"
#: Keys beyond 2^53 beside NULL, a number that its type cannot hold, and lists.
_ROWS = (
    "INSERT INTO t VALUES (1, 'a', 1.50, '2026-11-20 07:57:11.369827+00', '{1,2}', NULL),"
    " (9007199254740993, NULL, 'NaN', NULL, NULL, 9007199254740993)",
    "UPDATE t SET a = 'b' WHERE id = 1",
)


def run(program: Program, spark: Any) -> pa.Table:
    """Run a program; return what it leaves in ``rows``, or selects."""
    if program.language == "sql":
        return spark.sql(program.code).toArrow()
    names: dict[str, Any] = {"spark": spark}
    exec(compile(program.code, program.name, "exec"), names)
    return as_arrow(names["rows"])


def held(found: pa.Table) -> list[list[tuple[str, Any]]]:
    """The rows in a form that all engines share."""
    rows = [[(name, plain(value)) for name, value in row.items()] for row in found.to_pylist()]
    return sorted((sorted(row) for row in rows), key=repr)


def plain(value: Any) -> Any:
    """A map as a dictionary: engines give its pairs as tuples, or as named pairs."""
    if isinstance(value, list) and value and isinstance(value[0], (tuple, dict)):
        return dict(each.values() if isinstance(each, dict) else each for each in value)
    return {} if value == [] else value


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Iceberg scan planning with the polars_iceberg plugin")
def test_every_printed_program_gives_the_tables_rows(
    source: SourceDatabase, record: Any, feed_of: MakeFeed, spark: Any
) -> None:
    source.run(
        "CREATE TABLE t (id bigint PRIMARY KEY, a text, n numeric(12,2), at timestamptz,"
        " numbers int[], other bigint)"
    )
    recording = record(source)
    source.run(*_ROWS)
    recording.caught_up()
    feed = feed_of(recording, "public.t")
    feed.run()
    lake = feed.lake
    for kind, number in ((CHANGES, 3), (CURRENT, 2)):
        rows = held(lake.frame(kind).toArrow())
        assert len(rows) == number
        printed = programs(lake.format.name, lake.root, lake.source, lake.slot, lake.relation, kind)
        *run_here, trino = printed
        for program in run_here:
            assert held(run(program, spark)) == rows, program.name
        assert f"file://{lake.root}/" in trino.code


def write_delta(bucket: Bucket, path: str, rows: pa.Table, aside: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(str(aside / "delta"), rows)
    fs.copy_files(str(aside / "delta"), bucket.url.replace("/out?", f"/out/{path}?"))


def write_iceberg(bucket: Bucket, path: str, rows: pa.Table, aside: Path) -> None:
    """Write a table as a catalog of type hadoop does: a file names the newest metadata."""
    catalogs = pytest.importorskip("pyiceberg.catalog")
    options = address_options(bucket.url)
    server = {"s3.endpoint": f"http://{options['endpoint_override']}", "s3.region": "us-east-1"}
    catalog = catalogs.load_catalog("tests", type="in-memory", warehouse=str(aside), **server)
    catalog.create_namespace("lake")
    place = f"s3://lake/out/{path}"
    table = catalog.create_table("lake.t", rows.schema, location=place)
    table.append(rows)
    filesystem, folder = fs.FileSystem.from_uri(bucket.url.replace("/out?", f"/out/{path}?"))
    with filesystem.open_output_stream(f"{folder}/metadata/version-hint.text") as hint:
        hint.write(table.metadata_location.rpartition("/")[2].encode())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Iceberg scan planning with the polars_iceberg plugin")
@pytest.mark.parametrize(("format_", "write"), [("delta", write_delta), ("iceberg", write_iceberg)])
def test_python_opens_tables_in_an_object_store(
    format_: str, write: Callable[..., None], bucket: Bucket, tmp_path: Path
) -> None:
    rows = pa.table({"id": [1, 2], "_commit_seq": [1, 2]})
    write(bucket, "shop/replview/public~2Et/current", rows, tmp_path)
    opened = 0
    for program in programs(format_, bucket.url, "shop", "replview", "public.t", CURRENT):
        # Spark's connector is a jar, and has tests with those of exports.
        if program.language == "python" and program.name != "PySpark":
            assert held(run(program, None)) == held(rows), program.name
            opened += 1
    assert opened == 3


def test_an_object_stores_server_is_named_to_each_library() -> None:
    root = "s3://lake/out?scheme=http&endpoint_override=minio:9000&region=eu-1"
    for format_, endpoint in (("delta", "aws_endpoint_url"), ("iceberg", "s3.endpoint")):
        found = programs(format_, root, "shop", "replview", "public.orders", CURRENT)
        for program in found:
            if program.name in ("DuckDB", "Polars", "pandas"):
                assert '"s3://lake/out/shop/replview/public~2Eorders/current"' in program.code
                assert f'"{endpoint}": "http://minio:9000"' in program.code
                compile(program.code, program.name, "exec")
            else:
                assert "s3a://lake/out" in program.code
                assert "minio" not in program.code


@pytest.mark.parametrize("format_", FORMATS)
def test_the_docs_print_them(format_: str) -> None:
    found = programs(format_, "/srv/lake", "shop", "replview", "public.orders", CURRENT)
    for language, comment in (("python", "#"), ("sql", "--")):
        texts = [f"{comment} {each.name}\n{each.code}" for each in found
                 if each.language == language]  # fmt: skip
        assert "\n".join((f"```{language}", "\n\n".join(texts), "```")) in DOCS.read_text()
