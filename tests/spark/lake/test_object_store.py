"""A lake in an object store: it is fed, read without Spark, maintained, erased from and removed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.fs as fs
import pytest

from replview.spark.lake.formats import FORMATS
from replview.spark.lake.programs import programs
from replview.spark.lake.tables import CURRENT
from replview.store.models import Erasure, Lake
from tests.spark.printed_programs import as_arrow
from tests.support.commands import an_instance as an_instance
from tests.support.commands import run as run
from tests.support.lake_connectors import session_variables
from tests.support.object_store import Bucket, spark_connector
from tests.support.object_store import bucket as bucket  # a fixture
from tests.support.object_store import credentials as credentials  # a fixture
from tests.support.searching import files_holding
from tests.support.source_databases import SourceDatabase

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.own_jvm,
    pytest.mark.filterwarnings("ignore:Iceberg scan planning with the polars_iceberg plugin"),
]

PLANTED = "PLANTED"
_TABLE = "public.person"


def current(lake: Lake) -> dict[str, list[tuple[int, str]]]:
    """Return the rows of ``current`` as the printed programs read them, by engine."""
    source, _, slot = lake.slot_name.partition("/")
    found = {}
    for program in programs(lake.format, lake.root, source, slot, _TABLE, CURRENT):
        if program.language == "python" and program.name != "PySpark":
            names: dict[str, Any] = {}
            exec(compile(program.code, program.name, "exec"), names)
            rows = as_arrow(names["rows"]).select(["id", "name"]).to_pylist()
            found[program.name] = sorted((row["id"], row["name"]) for row in rows)
    assert len(found) == 3
    return found


def all_read(lake: Lake, rows: list[tuple[int, str]]) -> bool:
    return all(found == rows for found in current(lake).values())


@pytest.mark.parametrize("format_", FORMATS)
def test_a_lake_lives_in_an_object_store(
    format_: str, source: SourceDatabase, record: Any, bucket: Bucket,
    run: Callable[..., str], settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    settings.DATA_DIR = tmp_path / "data"
    for name, value in session_variables(*spark_connector()).items():
        monkeypatch.setenv(name, value)
    source.run("CREATE TABLE person (id int PRIMARY KEY, name text)")
    recording = record(source)
    source.run("INSERT INTO person VALUES (1, 'PLANTED Ann'), (2, 'Bob'), (3, 'Cem')")
    recording.caught_up()
    run("lake", "add", "people", slot=str(recording.slot), root=bucket.url, format=format_,
        table=[_TABLE], connector="none")  # fmt: skip
    lake = Lake.objects.get()
    run("lake", "run", "people")
    assert all_read(lake, [(1, "PLANTED Ann"), (2, "Bob"), (3, "Cem")])

    source.run(
        "UPDATE person SET name = 'PLANTED Anna' WHERE id = 1",
        "UPDATE person SET id = 4 WHERE id = 2",
        "DELETE FROM person WHERE id = 3",
    )
    recording.caught_up()
    run("lake", "run", "people")
    run("lake", "maintain", "people")
    assert all_read(lake, [(1, "PLANTED Anna"), (4, "Bob")])

    run("erase", str(recording.slot), _TABLE, "1", yes=True)
    [root] = Erasure.objects.get().roots
    assert (root["what"], root["done"]) == ("lake people", True)
    assert all_read(lake, [(4, "Bob")])
    fs.copy_files(bucket.url, str(tmp_path / "copied"))
    assert files_holding(PLANTED, tmp_path / "copied") == []
    sizes = lake.relations.get().sizes
    assert [sizes[kind]["rows"] for kind in ("changes", "current")] == [7, 1]

    said = run("lake", "remove", "people", delete_tables=True, yes=True)
    assert f"/{lake.slot_name}/public~2Eperson?" in said
    assert bucket.files == {}
