"""Celery workers and beat on a store that may be crashed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replview.runtime.servers.redis import EmbeddedRedis
from tests.support.celery_workers import Workers
from tests.support.crash_stores import CrashStore


@contextmanager
def celery_processes(store: CrashStore, redis: EmbeddedRedis, folder: Path) -> Iterator[Workers]:
    """``Workers`` on this store and broker; none of them is left."""
    environment = {
        **store.environment,
        "REPLVIEW_REDIS_URL": redis.url(),
        "REPLVIEW_DATA": str(folder),
    }
    workers = Workers(environment, folder)
    try:
        yield workers
    finally:
        workers.end()
