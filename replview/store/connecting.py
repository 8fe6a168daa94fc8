"""Connections to the store outside the ORM, for writing and long streams; and which store it is."""

import hashlib
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg
from django.conf import settings
from django.db import DatabaseError, close_old_connections, connection, connections
from psycopg.conninfo import make_conninfo

#: Both ends notice a link that swallows packets: a receiver whose host vanished would else hold
#: its slot's row, and with it the slot, for hours.
_LIVELINESS: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
#: Not among libpq's ``options``, which a pooler such as PgBouncer refuses.
_SETTINGS = (
    "SET timezone = 'UTC'; SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres'; "
    "SET bytea_output = 'hex'; SET extra_float_digits = 3; SET standard_conforming_strings = on; "
    "SET idle_in_transaction_session_timeout = '10s'; SET tcp_keepalives_idle = 5; "
    "SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3"
)
log = logging.getLogger(__name__)
_PREFIX = "replview"
_IDENTITY = """
    SELECT (SELECT system_identifier FROM pg_control_system())::text || '/' || current_database()
"""
#: A process that starts together with the store waits for it so long.
_WAIT_SECONDS = 60.0
_AGAIN_SECONDS = 1.0


@contextmanager
def orm_connection() -> Iterator[None]:
    """For code in a thread of its own: the ORM's connection, made when needed, closed after."""
    close_old_connections()
    try:
        yield
    finally:
        connection.close()


@contextmanager
def alone(lock: int) -> Iterator[bool]:
    """Yields whether nobody else of this store's processes is within this lock's block now."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [lock])
        mine = bool(cursor.fetchone()[0])
    try:
        yield mine
    finally:
        if mine:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [lock])


@contextmanager
def lasting_connection() -> Iterator[None]:
    """For a thread that does something every few seconds: the ORM's connection, checked before it
    is used, and kept for the next time where ``keep_connections`` was called; else closed after.
    """
    close_old_connections()
    try:
        yield
    finally:
        connection.close_if_unusable_or_obsolete()


def keep_connections(seconds: int) -> None:
    """In this process, a worker: threads that last keep theirs for so long, instead of a pool."""
    given: dict[str, Any] = connections.settings["default"]
    options = {name: value for name, value in given["OPTIONS"].items() if name != "pool"}
    given |= {"CONN_MAX_AGE": seconds, "CONN_HEALTH_CHECKS": True}
    given["OPTIONS"] = {**_LIVELINESS, **options}


def connect_store(application_name: str = "replview") -> psycopg.Connection[Any]:
    """An autocommit connection to the store Django is configured for."""
    session = psycopg.connect(
        **{**_LIVELINESS, **_address()},
        autocommit=True,
        application_name=application_name,
        connect_timeout=10,
        client_encoding="UTF8",
    )
    session.execute(_SETTINGS)
    return session


def store_conninfo() -> str:
    """Return the store's address, with its password, for another process."""
    return make_conninfo("", **_address())


def _address() -> dict[str, Any]:
    settings: dict[str, Any] = connections["default"].settings_dict
    names = ("user", "password", "host", "port")
    given = {"dbname": settings["NAME"], **{name: settings[name.upper()] for name in names}}
    given |= {name: value for name, value in settings["OPTIONS"].items() if name != "pool"}
    return {name: value for name, value in given.items() if value not in ("", None)}


# Two teams may have a store each and one Redis: their tasks and wake-ups must not cross. So all
# keys there begin with a name that all processes of one instance find by themselves, by whatever
# address they reach the store: a digest of its system identifier and its database, or
# ``REPLVIEW_INSTANCE``.


def redis_prefix() -> str:
    """What keys on Redis begin with. Raises psycopg's ``OperationalError`` without a store."""
    if settings.INSTANCE:
        return f"{_PREFIX}-{settings.INSTANCE}"
    # No instance: a test, or a command that needs none.
    return f"{_PREFIX}-{_digest()}" if settings.STORE_URL else _PREFIX


def awaited_redis_prefix() -> str:
    """The same, for a process that can do nothing without it: it waits for the store a while."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            return redis_prefix()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            log.warning("waiting for the store")
            time.sleep(_AGAIN_SECONDS)


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
