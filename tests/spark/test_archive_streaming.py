"""The archive on Spark: a batch that is played again after a crash doubles nothing."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.dataset as pads
import pytest

from replview.parquet import reading
from replview.parquet.archive import increments
from replview.parquet.slices import Slice
from replview.parquet.writing.exporting import export
from replview.parquet.writing.problems import TargetProblem
from replview.parquet.writing.targets import Target
from replview.spark.archive_streaming import archive
from replview.spark.pyspark_versions import limits_batches
from tests.support.digests import digests
from tests.support.exported_history import history as history  # a fixture
from tests.support.history_rows import History, insert

pytestmark = pytest.mark.slow


def rows(root: Path, dataset: str) -> list[dict[str, Any]]:
    folder = root / "shop" / "replview-1" / dataset
    return pads.dataset(folder, format="parquet").to_table().to_pylist()


def parquet(root: Path) -> dict[str, str]:
    return {name: digest for name, digest in digests(root).items() if name.endswith(".parquet")}


@pytest.mark.own_jvm
def test_a_crash_between_write_and_commit_doubles_nothing(
    history: History, spark, store_dsn: str, tmp_path: Path, monkeypatch
) -> None:
    root = tmp_path / "archive"
    written: list[int] = []

    def killed_after(part: Slice, *words: Any, **more: Any) -> None:
        export(part, *words, **more)
        written.append(part.through_seq)
        raise TargetProblem("killed", "run it again")

    with monkeypatch.context() as patch:
        patch.setattr(increments, "export", killed_after)
        with pytest.raises(TargetProblem, match="killed"):
            archive(spark, str(root), dsn=store_dsn, changes=2)
    # PySpark 4.1 makes one batch of what is stored.
    ends = [1, 3] if limits_batches() else [3]
    assert written == ends[:1]
    left = parquet(root)
    assert left
    checkpoint = root / "_checkpoints" / "shop" / "replview"
    assert [path.name for path in checkpoint.glob("offsets/[0-9]*")] == ["0"]
    assert not list(checkpoint.glob("commits/[0-9]*"))

    # The batch is played again: its slice is there, the next ones follow.
    done = {"1": 3} if len(ends) > 1 else {}
    assert archive(spark, str(root), dsn=store_dsn, changes=2) == (done, [])
    assert {name: parquet(root)[name] for name in left} == left
    assert [row["commit_seq"] for row in rows(root, "transactions")] == [1, 2, 3]
    assert [(row["id"], row["_change_type"]) for row in rows(root, "public.orders")] == [
        ("1", "insert"), ("2", "insert"), ("3", "insert"), ("3", "update_postimage"),
    ]  # fmt: skip

    history.commit(insert(4))
    assert archive(spark, str(root), dsn=store_dsn, changes=2) == ({"1": 4}, [])
    assert archive(spark, str(root), dsn=store_dsn, changes=2) == ({}, [])
    assert len(rows(root, "public.orders")) == 5
    # Without Spark the same slices are the same bytes.
    with reading.connect(store_dsn) as store:
        for after, through in pairwise([0, *ends, 4]):
            part = reading.resolve(
                store, reading.SliceRequest(after_seq=after, through_seq=through)
            )
            export(part, Target.of(str(tmp_path / "b")), dsn=store_dsn)
    assert parquet(tmp_path / "b") == parquet(root)
