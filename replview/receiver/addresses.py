"""A source's connection string with what a receiver adds to it."""

from typing import Any

from psycopg import conninfo as libpq

#: The session's own settings shape text output, not the writer's.
TEXT_SETTINGS = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "timezone": "UTC",
}
#: A vanished host must free its slot soon, hence the short timeout.
_SETTINGS = {**TEXT_SETTINGS, "wal_sender_timeout": "10s"}


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


def polling_conninfo(conninfo: str) -> str:
    """The address of an ordinary connection that reads a slot through SQL functions.

    Nothing that a pooler would refuse. Such a connection is silent while the server decodes, so
    probes must notice a host that is gone. Raises ``psycopg.ProgrammingError``.
    """
    given = libpq.conninfo_to_dict(conninfo)
    probes = {"keepalives_idle": 5, "keepalives_interval": 5, "keepalives_count": 3}
    return libpq.make_conninfo(
        conninfo,
        application_name="replview",
        client_encoding="UTF8",
        connect_timeout=given.get("connect_timeout", 10),
        **{name: given.get(name, value) for name, value in probes.items()},
        **given_up_after(conninfo),
    )
