"""Jobs in processes of their own: how long each takes, and the most memory that it has at once."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import psutil

from tests.benchmarks.processes import Failed


@dataclass
class Ended:
    """The time and memory of a job; executors elsewhere are not counted."""

    seconds: float = 0.0
    peak_bytes: int = 0


def export(dsn: str, part: Any, folder: Path, spark: str | None) -> Ended:
    """An export job as the worker starts it: Python, its imports, the store's session, all in."""
    order = folder.with_suffix(".json")
    told = {"slice": part.to_json(), "target": str(folder), "dsn_env": "STORE", "spark": spark}
    order.write_bytes(orjson.dumps(told))
    return run(["replview.spark.export_job", str(order)], {"STORE": dsn})


def run(words: Sequence[str], environment: Mapping[str, str]) -> Ended:
    """Run a module of ours to its end. Raises ``Failed``."""
    ended, started = Ended(), time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", *words],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        watcher = threading.Thread(target=_watch, args=[process.pid, ended])
        watcher.start()
        assert process.stdout is not None
        last = process.stdout.read().splitlines()[-1:]
        process.wait()
        ended.seconds = time.monotonic() - started
        watcher.join()
    if process.returncode:
        raise Failed(f"the job ended with {process.returncode}: {last}")
    return ended


def _watch(pid: int, ended: Ended) -> None:
    """The most that the job and its children have at once."""
    try:
        job = psutil.Process(pid)
        while job.is_running() and job.status() != psutil.STATUS_ZOMBIE:
            ended.peak_bytes = max(ended.peak_bytes, _together(job))
            time.sleep(0.1)
    except psutil.NoSuchProcess:
        return


def _together(job: psutil.Process) -> int:
    total = 0
    for each in (job, *job.children(recursive=True)):
        try:
            # Pages that forked workers share are counted once, as parts.
            total += each.memory_full_info().pss
        except psutil.Error:
            continue
    return total
