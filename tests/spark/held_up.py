"""A record of six days, and exports of it that a lock in the store holds up in their middle."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import psycopg
from psycopg import sql

from replview.parquet import reading
from replview.parquet.slices import Slice
from replview.store.write.partitions import ensure_partitions
from tests.support.days import Days, days_ago, the, today
from tests.support.history_rows import insert
from tests.support.waiting import wait_for

DAYS, CHANGES = 6, 5_000
_GROW = """
    INSERT INTO change SELECT (jsonb_populate_record(c, jsonb_build_object(
        'seq', n, 'new', jsonb_build_object(
            'id', n::text, 'status', md5(c.transaction_id::text || n), 'note', null)
    ))).* FROM change c, generate_series(2, %(changes)s) n WHERE c.transaction_id = %(id)s
"""


def recorded(store_dsn: str, changes: int) -> Slice:
    """A slice of six days, a large transaction a day: each is a file of its own."""
    with psycopg.connect(store_dsn, autocommit=True) as store:
        ensure_partitions(store, days_ago(DAYS).date(), today().date())
        history = Days()
        counts = {str(history.orders.relation_id): [changes, 0, 0, 0]}
        for day in range(DAYS, 0, -1):
            made = history.on(days_ago(day), insert(1), inserts=changes, relations=counts)
            store.execute(_GROW, {"id": made, "changes": changes})
    with reading.connect(store_dsn) as store:
        return reading.resolve(store, reading.SliceRequest(source="shop", slot="replview"))


@contextmanager
def export_job(
    part: Slice, tmp_path: Path, dsn: str, spark: str, environment: Mapping[str, str] = os.environ
) -> Iterator[Any]:
    """A process that exports the slice with Spark; what is left of it is killed."""
    order = tmp_path / "job.json"
    asked = {"slice": part.to_json(), "target": str(tmp_path / "spark"), "dsn_env": "STORE"}
    order.write_bytes(orjson.dumps({**asked, "spark": spark}))
    with (tmp_path / "log").open("ab") as lines:
        job = subprocess.Popen(
            [sys.executable, "-m", "replview.spark.export_job", order],
            env={**environment, "STORE": dsn, "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=lines, start_new_session=True,
        )  # fmt: skip
    try:
        yield job
    finally:
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.communicate()


@contextmanager
def held_up(job: subprocess.Popen[bytes], store_dsn: str) -> Iterator[int]:
    """The port from which a task of an export reads the last day, which waits meanwhile."""
    assert job.stdout is not None
    # Progress is told once all is planned, before a task begins.
    assert orjson.loads(job.stdout.readline())["event"] == "progress"
    with last_day_locked(store_dsn):
        yield waiting_port(job, store_dsn)


@contextmanager
def last_day_locked(store_dsn: str) -> Iterator[None]:
    """Lock the changes of the last day: a task that reads them waits."""
    with psycopg.connect(store_dsn) as store:
        partition = sql.Identifier(f"change_{the(1):%Y%m%d}")
        store.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(partition))
        yield


def waiting_port(job: subprocess.Popen[bytes], store_dsn: str) -> int:
    """The port of the first client that waits for a lock, while the job runs."""
    wait_for(lambda: job.poll() is not None or reading_ports(store_dsn), 240, "no task waits")
    return reading_ports(store_dsn)[0]


def reading_ports(store_dsn: str) -> list[int]:
    """The ports of clients that wait for a lock."""
    with psycopg.connect(store_dsn) as store:
        found = store.execute(
            "SELECT client_port FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            " AND datname = current_database()"
        )
        return [port for (port,) in found]


def done(job: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Return the last message of a job that succeeds."""
    out, _ = job.communicate(timeout=300)
    last: dict[str, Any] = orjson.loads(out.splitlines()[-1])
    assert (job.returncode, last["event"]) == (0, "done")
    return last
