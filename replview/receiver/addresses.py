"""A source's connection string with what a receiver adds to it."""

from typing import Any

from psycopg import conninfo as libpq

#: The session's own settings shape text output, not the writer's. A vanished host must free its
#: slot soon, hence the short timeout.
_SETTINGS = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "timezone": "UTC",
    "wal_sender_timeout": "10s",
}


def given_up_after(conninfo: str) -> dict[str, Any]:
    """Connection parameters by which a host that vanished without a word is given up, unless the
    DSN has its own: what we sent, status updates too, was not acknowledged for 20 s.
    """
    given = libpq.conninfo_to_dict(conninfo)
    return {"tcp_user_timeout": given.get("tcp_user_timeout", 20_000)}


def replication_conninfo(conninfo: str, *, client_encoding: str) -> str:
    """The address of a walsender session. Raises ``psycopg.ProgrammingError``."""
    settings = {**_SETTINGS, "client_encoding": client_encoding}
    given = libpq.conninfo_to_dict(conninfo)
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    return libpq.make_conninfo(
        conninfo,
        replication="database",
        application_name="replview",
        connect_timeout=given.get("connect_timeout", 10),
        options=f"{given.get('options', '')} {options}".strip(),
        **given_up_after(conninfo),
    )
