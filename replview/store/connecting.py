"""This module opens connections to the store outside the ORM, for writing and long streams."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import close_old_connections, connection, connections
from psycopg.conninfo import make_conninfo

#: Settings with which both ends detect a link that drops packets: a receiver whose host vanished
#: would otherwise lock its slot's row, and with it the slot, for hours.
_LIVELINESS: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
#: Settings as statements, since a pooler such as PgBouncer refuses libpq's ``options``.
_SETTINGS = (
    "SET timezone = 'UTC'; SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres'; "
    "SET bytea_output = 'hex'; SET extra_float_digits = 3; SET standard_conforming_strings = on; "
    "SET idle_in_transaction_session_timeout = '10s'; SET tcp_keepalives_idle = 5; "
    "SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3"
)
log = logging.getLogger(__name__)


@contextmanager
def orm_connection() -> Iterator[None]:
    """Provide the ORM's connection to code in its own thread, and close it afterwards."""
    close_old_connections()
    try:
        yield
    finally:
        connection.close()


@contextmanager
def alone(lock: int) -> Iterator[bool]:
    """Yield True if no other process of this store is inside a block with this lock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [lock])
        acquired = bool(cursor.fetchone()[0])
    try:
        yield acquired
    finally:
        if acquired:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [lock])


@contextmanager
def lasting_connection() -> Iterator[None]:
    """Provide the ORM's connection to a thread that works every few seconds.

    The connection is checked before the block, and closed after it unless ``keep_connections`` was
    called.
    """
    close_old_connections()
    try:
        yield
    finally:
        connection.close_if_unusable_or_obsolete()


def keep_connections(seconds: int) -> None:
    """Keep the connections of long-lived threads for ``seconds``, instead of using a pool.

    This holds for the current process, a worker.
    """
    database: dict[str, Any] = connections.settings["default"]
    options = {name: value for name, value in database["OPTIONS"].items() if name != "pool"}
    database |= {"CONN_MAX_AGE": seconds, "CONN_HEALTH_CHECKS": True}
    database["OPTIONS"] = {**_LIVELINESS, **options}


def connect_store(application_name: str = "replview") -> psycopg.Connection[Any]:
    """Return an autocommit connection to the store that Django is configured for."""
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
    """Return the store's connection string, with its password, for another process."""
    return make_conninfo("", **_address())


def _address() -> dict[str, Any]:
    settings: dict[str, Any] = connections["default"].settings_dict
    names = ("user", "password", "host", "port")
    params = {"dbname": settings["NAME"], **{name: settings[name.upper()] for name in names}}
    params |= {name: value for name, value in settings["OPTIONS"].items() if name != "pool"}
    return {name: value for name, value in params.items() if value not in ("", None)}
