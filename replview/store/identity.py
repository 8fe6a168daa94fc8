"""Identify the store, and derive the prefix of its processes' keys in a shared Redis.

Two teams may have a store each and one Redis: their tasks and wake-ups must not mix. So all keys
there begin with a name that all processes of one instance derive on their own, whatever address
they use for the store: a digest of its system identifier and its database, or
``REPLVIEW_INSTANCE``.
"""

import hashlib
import logging
import time
from functools import cache

import psycopg
from django.conf import settings
from django.db import DatabaseError, connection

from replview.store.connecting import connect_store

log = logging.getLogger(__name__)
_PREFIX = "replview"
_IDENTITY = """
    SELECT (SELECT system_identifier FROM pg_control_system())::text || '/' || current_database()
"""
#: Seconds that a process waits for a store that starts at the same time.
_WAIT_SECONDS = 60.0
AGAIN_SECONDS = 1.0


def redis_prefix() -> str:
    """Return the prefix of keys in Redis. Raises psycopg's ``OperationalError`` without a store."""
    if settings.INSTANCE:
        return f"{_PREFIX}-{settings.INSTANCE}"
    # Without a store it is a test, or a command that needs no instance.
    return f"{_PREFIX}-{_digest()}" if settings.STORE_URL else _PREFIX


def awaited_redis_prefix() -> str:
    """Return ``redis_prefix()``, after waiting for the store for up to a minute.

    This is for a process that can do nothing without it.
    """
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            return redis_prefix()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            log.warning("waiting for the store")
            time.sleep(AGAIN_SECONDS)


@cache
def _digest() -> str:
    with connect_store("replview identity") as session:
        row = session.execute(_IDENTITY).fetchone()
    assert row is not None
    return hashlib.sha256(str(row[0]).encode()).hexdigest()[:12]


def store_system_identifier() -> str | None:
    """Return the store's system identifier; None where it cannot be read."""
    if not settings.STORE_URL:
        return None
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT system_identifier FROM pg_control_system()")
            return str(int(cursor.fetchone()[0]) % (1 << 64))
    except DatabaseError:
        return None
