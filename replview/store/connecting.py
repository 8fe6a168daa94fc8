"""Connections to the store outside the ORM, for the write path and for long streams."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import close_old_connections, connection, connections
from psycopg.conninfo import make_conninfo


@contextmanager
def orm_connection() -> Iterator[None]:
    """For code in a thread of its own: the ORM's connection, made when needed, closed after."""
    close_old_connections()
    try:
        yield
    finally:
        connection.close()


#: Both ends notice a link that swallows packets: a receiver whose host vanished would else hold
#: its slot's row, and with it the slot, for hours.
_LIVELINESS: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_OPTIONS = (
    "-c timezone=UTC -c idle_in_transaction_session_timeout=10s -c tcp_keepalives_idle=5 "
    "-c tcp_keepalives_interval=2 -c tcp_keepalives_count=3"
)


def connect_store(application_name: str = "replview") -> psycopg.Connection[Any]:
    """An autocommit connection to the store Django is configured for."""
    address = _address()
    # The address, or the web server's limits, may bring some: ours come last, and so win.
    options = f"{address.pop('options', '')} {_OPTIONS}".strip()
    return psycopg.connect(
        **_LIVELINESS,
        **address,
        autocommit=True,
        application_name=application_name,
        connect_timeout=10,
        client_encoding="UTF8",
        options=options,
    )


def store_conninfo() -> str:
    """The same store's address, with its password, for a process of its own."""
    return make_conninfo("", **_address())


def _address() -> dict[str, Any]:
    settings: dict[str, Any] = connections["default"].settings_dict
    given = {
        "dbname": settings["NAME"],
        "user": settings["USER"],
        "password": settings["PASSWORD"],
        "host": settings["HOST"],
        "port": settings["PORT"],
        **{name: value for name, value in settings["OPTIONS"].items() if name != "pool"},
    }
    return {name: value for name, value in given.items() if value not in ("", None)}
