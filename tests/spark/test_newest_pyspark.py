"""The data source on the newest PySpark of the range; the other tests run on the oldest."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import newest_pyspark

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.own_jvm]
ROOT = Path(__file__).parents[2]


def test_it_reads_and_streams_on_the_newest_pyspark(
    source, record, store_dsn: str, tmp_path: Path
) -> None:
    try:
        packages = newest_pyspark.packages()
    except newest_pyspark.PySparkMissing as problem:
        pytest.skip(str(problem))
    source.run("CREATE TABLE t (id int PRIMARY KEY, at timestamp DEFAULT '2026-11-20 07:57:11')")
    recording = record(source)
    source.run(*[f"INSERT INTO t SELECT generate_series({n}, {n + 9})" for n in range(0, 50, 10)])
    recording.caught_up()

    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT)]), "TZ": "UTC",
        "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.spark.read_and_stream", store_dsn, str(tmp_path)]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "version": newest_pyspark.VERSION, "read": [*range(50)], "of a key": [7],
        "streamed": [*range(50)], "times": ["2026-11-20 07:57:11"], "last column": "commit_date",
        "batches": [20, 20, 10], "batches up to an offset": [20],
    }  # fmt: skip
