"""Connections to the store outside the ORM, for writing and long streams."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import close_old_connections, connection, connections
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
