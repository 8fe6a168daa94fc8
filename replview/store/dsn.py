"""How to reach a source: its DSN without the password, and with it again.

A DSN may hold no secret at all: ``service=…`` is left to libpq, and ``env:NAME`` means that the
whole DSN is in that environment variable of every process that connects.
"""

import os
from typing import Any

import psycopg
from psycopg import conninfo as libpq

from replview.store.models import Source
from replview.store.secrets import seal, unseal

_ENVIRONMENT = "env:"


class DSNError(ValueError):
    """The DSN cannot be used; the text says why without repeating it."""


def split_dsn(dsn: str) -> tuple[str, str | None]:
    """``(conninfo without the password, password or None)``. Raises ``DSNError``."""
    if dsn.startswith(_ENVIRONMENT):
        if not dsn.removeprefix(_ENVIRONMENT).isidentifier():
            raise DSNError("env: must be followed by the name of an environment variable")
        return dsn, None
    parts = _parse(dsn)
    if "sslpassword" in parts:
        raise DSNError(
            "the DSN holds an sslpassword: put it into a service file or an environment variable"
        )
    password = parts.pop("password", None)
    return libpq.make_conninfo("", **parts), str(password) if password else None


def full_conninfo(source: Source) -> str:
    """The source's conninfo with its password, to connect with and never to show.

    Raises ``DSNError``, or ``SecretKeyChanged`` when the password cannot be unsealed.
    """
    conninfo = resolve(source.conninfo)
    if not source.sealed_password:
        return conninfo
    return libpq.make_conninfo(conninfo, password=unseal(source.sealed_password))


def resolve(dsn: str) -> str:
    """A DSN as the user gave it, ``env:NAME`` replaced by what the variable holds."""
    if not dsn.startswith(_ENVIRONMENT):
        _parse(dsn)
        return dsn
    name = dsn.removeprefix(_ENVIRONMENT)
    value = os.environ.get(name)
    if not value:
        raise DSNError(
            f"the environment variable {name} is not set in this process: set it where replview "
            "and its workers are started"
        )
    _parse(value)
    return value


def set_dsn(source: Source, dsn: str) -> None:
    """Give a source (not yet saved) its address and its sealed password. Raises ``DSNError``."""
    source.conninfo, password = split_dsn(dsn)
    source.sealed_password = seal(password) if password else ""


def _parse(dsn: str) -> dict[str, Any]:
    try:
        return dict(libpq.conninfo_to_dict(dsn))
    except psycopg.ProgrammingError:
        # libpq's own message repeats the string, password and all.
        raise DSNError(
            "the DSN is not a libpq connection string: write "
            "postgresql://user:password@host:port/database, or host=… dbname=… user=…"
        ) from None
