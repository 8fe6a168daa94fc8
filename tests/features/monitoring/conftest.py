"""A source with a slot, as sampling leaves them in the store."""

from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.utils import timezone

from replview.runtime.servers.redis import EmbeddedRedis
from replview.store.models import Source, WatchedSlot


@pytest.fixture
def public(db, settings, redis_server: EmbeddedRedis) -> Client:
    """Nobody in particular, where anybody may read the metrics."""
    cache.clear()
    settings.METRICS_PUBLIC = True
    settings.REDIS_URL = redis_server.url()
    return Client()


@pytest.fixture
def shop(db) -> Source:
    """A source that answered its last look."""
    return Source.objects.create(
        name="shop", conninfo="host=shop.example", server_version=180004, in_recovery=False,
        checked_at=timezone.now(), max_slot_wal_keep_bytes=-1,
    )  # fmt: skip


def watched(source: Source, name: str, facts: dict[str, Any], **values: Any) -> WatchedSlot:
    """A slot of the source, seen just now."""
    pk = 1000 + WatchedSlot.objects.count()
    known = {"id": pk, "plugin": "pgoutput", "database": "shop"}
    return WatchedSlot.objects.create(source=source, name=name, facts=facts, **(known | values))


@pytest.fixture
def samples(db) -> None:
    """A place for samples, whatever partitions there are."""
    with connection.cursor() as cursor:
        for table in ("slot_sample", "source_sample"):
            cursor.execute(f"CREATE TABLE {table}_of_test PARTITION OF {table} DEFAULT")
