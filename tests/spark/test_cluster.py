"""Spark on a cluster of its own: workers without replview read and export."""

import signal
from collections.abc import Iterator

import pytest

from replview.parquet.writing.exporting import export
from replview.parquet.writing.targets import Target
from tests.spark.elsewhere import history as history  # a fixture
from tests.spark.elsewhere import reads_the_history
from tests.spark.held_up import (
    CHANGES,
    DAYS,
    done,
    export_job,
    held_up,
    recorded,
)
from tests.support.spark_cluster import SparkCluster, spark_cluster
from tests.support.written_rows import written_rows

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.own_jvm]


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with spark_cluster() as running:
        yield running


def test_the_record_is_read_by_the_code_that_the_driver_sends(cluster, history, store_dsn) -> None:
    reads_the_history(cluster.url, store_dsn, cluster.environment)


def test_an_executor_killed_in_the_middle_leaves_the_same_rows(
    cluster, transactional_db, store_dsn, tmp_path
) -> None:
    part = recorded(store_dsn, CHANGES)
    with export_job(part, tmp_path, store_dsn, cluster.url, cluster.environment) as job:
        with held_up(job, store_dsn) as port:
            cluster.executor_at(port).send_signal(signal.SIGKILL)
        manifest = done(job)["manifest"]
    assert manifest["rows"] == DAYS * CHANGES
    assert len(manifest["files"]) >= 2 * DAYS
    assert b"Lost executor" in (tmp_path / "log").read_bytes()
    export(part, Target.of(str(tmp_path / "plain")), dsn=store_dsn)
    assert written_rows(tmp_path / "spark") == written_rows(tmp_path / "plain")
