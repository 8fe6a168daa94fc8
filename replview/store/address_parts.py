"""An address put together from its parts, and told in a sentence without a secret."""

from collections.abc import Mapping

import psycopg
from psycopg import conninfo as libpq


def conninfo_from(parts: Mapping[str, str]) -> str:
    """``host=… dbname=…``; what libpq does not know is refused when it is used."""
    return libpq.make_conninfo("", **parts)


def place_of(conninfo: str) -> str:
    """``shop at db.example:5432``."""
    if conninfo.startswith("env:"):
        return conninfo
    try:
        given = libpq.conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        return "the address"
    if given.get("service"):
        return f"service {given['service']}"
    host = given.get("host") or given.get("hostaddr") or "the local socket"
    place = f"{host}:{given['port']}" if given.get("port") else str(host)
    return f"{given.get('dbname') or given.get('user') or 'the database'} at {place}"
