"""Export jobs in processes of their own."""

import datetime as dt
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest

from replview.parquet import reading
from replview.runtime.failpoints import Point
from replview.store.write.partitions import ensure_partitions
from tests.support.failpoints import environment
from tests.support.history_rows import History, insert

ROWS = 150_000


@pytest.fixture
def job(store_dsn, tmp_path):
    """Start a job on one large transaction."""
    today = dt.datetime.now(dt.UTC).date()
    with psycopg.connect(store_dsn, autocommit=True) as store:
        ensure_partitions(store, today, today)
    history = History()
    identifier = history.commit(insert(1))
    with psycopg.connect(store_dsn, autocommit=True) as store:
        store.execute(
            """INSERT INTO change (transaction_id, seq, lsn, relation_id, version_id, op, new)
               SELECT transaction_id, n, lsn, relation_id, version_id, op,
                      jsonb_set(new, '{id}', to_jsonb(n::text))
               FROM change, generate_series(2, %s) n WHERE transaction_id = %s""",
            [ROWS, identifier],
        )
        store.execute(
            "UPDATE transaction SET inserts = %s, size_bytes = 60 * %s,"
            " relations = jsonb_build_object(%s::text, jsonb_build_array(%s::int, 0, 0, 0))",
            [ROWS, ROWS, history.orders.relation_id, ROWS],
        )
    with reading.connect(store_dsn) as store:
        part = reading.resolve(store, reading.SliceRequest(source="shop", slot="replview"))
    started = []

    def start(
        target: Path | str,
        spark: str | None = None,
        points: Mapping[Point, str] = {},
        **options: Any,
    ) -> subprocess.Popen[bytes]:
        asked = {"slice": part.to_json(), "target": str(target), "dsn_env": "STORE"}
        path = tmp_path / "job.json"
        path.write_bytes(orjson.dumps({**asked, "spark": spark}))
        process = subprocess.Popen(
            [sys.executable, "-m", "replview.spark.export_job", path],
            env={**os.environ, "STORE": store_dsn, **environment(points)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[bytes], store_dsn: str) -> tuple[int, list[dict[str, Any]]]:
    out, log = process.communicate(timeout=120)
    password = psycopg.conninfo.conninfo_to_dict(store_dsn)["password"]
    assert password.encode() not in out + log
    return process.returncode, [orjson.loads(line) for line in out.splitlines()]
