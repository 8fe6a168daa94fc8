"""History jobs over a slot's record, without an export."""

import json
from pathlib import Path
from typing import Any

import pytest

from replview.spark.__main__ import main
from replview.store.models import MaskRule
from tests.spark.exporting import exported

pytestmark = pytest.mark.slow


@pytest.fixture
def recorded(source, record, store_dsn, monkeypatch, tmp_path) -> Any:
    """Two tables with a history; folders for what lasts as long as a job."""
    source.run("CREATE TABLE t (id int PRIMARY KEY, mail text)", "CREATE TABLE other (id int)")
    recording = record(source)
    source.run(
        "TRUNCATE t", "INSERT INTO t VALUES (1, 'a'), (2, 'b')", "UPDATE t SET mail = 'c'",
        "UPDATE t SET id = 3 WHERE id = 1", "DELETE FROM t WHERE id = 2",
        "INSERT INTO other VALUES (1)",
    )  # fmt: skip
    recording.caught_up()
    recording.end()
    monkeypatch.setenv("REPLVIEW_STORE_URL", store_dsn)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    return recording


def answer(capsys: Any, *words: str) -> dict[str, Any]:
    status = main([*words, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    found.get("details", {}).pop("rows_read", None)
    return {**found, "status": status}


def test_the_answer_is_that_over_an_export(
    recorded, store_dsn: str, tmp_path: Path, capsys
) -> None:
    exported(store_dsn, recorded, tmp_path / "out")
    slot = f"--slot={recorded.slot}"
    for job in ("who-changed-what", "as-of", "row-versions", "churn", "transaction-rates"):
        table = [] if job == "transaction-rates" else ["--table=t"]
        found = answer(capsys, job, slot, *table)
        assert found == answer(capsys, job, f"--root={tmp_path / 'out'}", *table), job
        assert found["status"] == 0
        assert found["rows"]
    assert not [*(tmp_path / "scratch").iterdir()]


def test_what_pages_mask_is_masked(recorded, capsys) -> None:
    MaskRule.objects.create(table_pattern="t", column_pattern="mail", when="display")
    found = answer(capsys, "as-of", f"--slot={recorded.slot}", "--table=t")
    columns = found["columns"]
    [row] = found["rows"]
    assert (row[columns.index("id")], row[columns.index("mail")]) == (3, None)
    assert row[columns.index("_pg_raw")] == {"mail": '{"$masked":true}'}


def test_what_is_too_large_is_refused_before_it_is_read(recorded, tmp_path: Path, capsys) -> None:
    words = ("hot-rows", f"--slot={recorded.slot}", "--table=t")
    problem = answer(capsys, *words, "--spark-above=11")["problem"]
    assert problem.startswith("12 changes and transactions are too many")
    assert answer(capsys, *words, "--spark-above=12")["rows"]
    assert not [*(tmp_path / "scratch").iterdir()]


def test_either_a_slot_or_a_root_is_named(recorded, capsys) -> None:
    for words in ([], ["--slot=a/b", "--root=x"]):
        with pytest.raises(SystemExit) as ended:
            main(["hot-rows", "--table=t", *words])
        assert ended.value.code == 64
    found = answer(capsys, "hot-rows", "--slot=no/such", "--table=t")
    assert (found["status"], "remedy" in found) == (1, True)
