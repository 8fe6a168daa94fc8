"""The printed programs open a lake's tables, with the same rows by every engine."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replview.spark.lake.formats import FORMATS
from replview.spark.lake.programs import Program, programs
from replview.spark.lake.tables import CHANGES, CURRENT
from tests.spark.lake.conftest import MakeFeed
from tests.spark.printed_programs import as_arrow
from tests.support.source_databases import SourceDatabase

DOCS = Path(__file__).parents[3] / "docs" / "lake.md"
#: Keys beyond 2^53 beside NULL, a number that its type cannot hold, and lists.
_ROWS = (
    "INSERT INTO t VALUES (1, 'a', 1.50, '2026-11-20 07:57:11.369827+00', '{1,2}', NULL),"
    " (9007199254740993, NULL, 'NaN', NULL, NULL, 9007199254740993)",
    "UPDATE t SET a = 'b' WHERE id = 1",
)


def run(program: Program, spark: Any) -> pa.Table:
    """What a program leaves in ``rows``, or selects."""
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
