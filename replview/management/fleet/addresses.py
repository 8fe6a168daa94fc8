"""The address of a declared source: its own DSN over that of the defaults, and no secret in it."""

from collections.abc import Mapping
from typing import Any

from psycopg import conninfo as libpq

from replview.management.fleet.faults import Faults
from replview.store.dsn import split_dsn
from replview.store.reachable import DSNError

_NO_SECRET = (
    'a password stands in it: say where it is instead, password = { env = "NAME" } or '
    '{ file = "/run/secrets/name" }, or keep it in a service file'
)


def address_of(
    values: Mapping[str, Any],
    defaults: Mapping[str, Any],
    path: tuple[str | int, ...],
    faults: Faults,
) -> tuple[str, str]:
    """``(conninfo, password_ref)`` as the store keeps them; faults where it is none."""
    own = str(values.get("dsn", ""))
    service = str(values.get("service", ""))
    if own and service:
        faults.add((*path, "service"), "give a dsn or a service, not both")
    password_ref = values.get("password", "")
    if own.startswith("env:"):
        if password_ref:
            faults.add((*path, "password"), "the whole DSN is in that variable, password and all")
        return _split(own, (*path, "dsn"), faults), ""
    if service:
        # What stands in a connection string outweighs the service: no defaults come between.
        return _split(libpq.make_conninfo("", service=service), path, faults), password_ref
    if not own and "dsn" not in defaults:
        faults.add(path, 'it has no address: dsn = "host=… dbname=… user=…"')
        return "", ""
    password_ref = password_ref or defaults.get("password", "")
    shared = _split(str(defaults.get("dsn", "")), ("defaults", "dsn"), faults)
    conninfo = _split(own, (*path, "dsn"), faults)
    if shared.startswith("env:"):
        return conninfo or shared, password_ref if conninfo else ""
    merged = {**libpq.conninfo_to_dict(shared), **libpq.conninfo_to_dict(conninfo)}
    return libpq.make_conninfo("", **merged), password_ref


def _split(dsn: str, path: tuple[str | int, ...], faults: Faults) -> str:
    """As the store keeps it; empty where it is no DSN."""
    try:
        conninfo, password = split_dsn(dsn)
    except DSNError as error:
        faults.add(path, str(error))
        return ""
    if password:
        faults.add(path, _NO_SECRET)
    return conninfo
