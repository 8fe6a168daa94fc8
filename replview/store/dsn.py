"""This module splits a source's DSN from its password, and puts the two together again.

A DSN may contain no secret: libpq resolves ``service=…`` and ``passfile=…``; ``env:NAME`` names an
environment variable with the whole DSN, in every process that connects. The password alone may also
be in a variable, ``env:NAME``, or a file, ``file:/run/secrets/shop`` (``password_ref``).
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo as libpq

from replview.store.models import SlotIntention, Source, SourceDraft
from replview.store.reachable import DSNError, check_address, check_given
from replview.store.secrets import SecretKeyChanged, seal, unseal
from replview.store.untyped_secrets import with_own_secrets_only

#: Errors which say that the address of a source cannot be used, wherever the source is.
UNUSABLE = (DSNError, SecretKeyChanged)
_ENVIRONMENT = "env:"
_FILE = "file:"
#: Parameters of libpq, besides the password, that are secrets: the rest of a DSN is shown.
_SECRETS = ("sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret")
#: Limit of a password file's length.
_LONGEST_FILE_BYTES = 4096

#: Models with the address of a source.
HasAddress = Source | SourceDraft | SlotIntention
#: The columns of an address.
ADDRESS = ("conninfo", "sealed_password", "password_ref")


def address_of(row: HasAddress) -> dict[str, str]:
    """Return the columns of the row's address; the password stays sealed."""
    return {name: getattr(row, name) for name in ADDRESS}


def split_dsn(dsn: str) -> tuple[str, str | None]:
    """Return ``(conninfo without the password, password or None)``. Raises ``DSNError``."""
    if dsn.startswith(_ENVIRONMENT):
        if not dsn.removeprefix(_ENVIRONMENT).isidentifier():
            raise DSNError("env: must be followed by the name of an environment variable")
        return dsn, None
    parts = _parse(dsn)
    if name := next((name for name in _SECRETS if name in parts), None):
        raise DSNError(
            f"the DSN holds a secret, {name}: put it into a service file or an environment variable"
        )
    password = parts.pop("password", None)
    return libpq.make_conninfo("", **parts), str(password) if password else None


def full_conninfo(source: HasAddress) -> str:
    """Return the conninfo with its password, which must never be shown.

    Raises ``DSNError``, ``SecretKeyChanged``.
    """
    conninfo = resolve(source.conninfo)
    check_address(conninfo)
    if source.password_ref:
        return libpq.make_conninfo(conninfo, password=password_at(source.password_ref))
    if sealed := source.sealed_password:
        return libpq.make_conninfo(conninfo, password=unseal(sealed))
    return conninfo


def resolve(dsn: str) -> str:
    """Return a DSN with ``env:NAME`` replaced by the variable's value. Raises ``DSNError``."""
    value = _variable(dsn) if dsn.startswith(_ENVIRONMENT) else dsn
    _parse(value)
    return value


def set_dsn(
    source: HasAddress,
    dsn: str,
    password_ref: str = "",
    *,
    known: str = "",
    known_ref: str = "",
    has_password: bool = False,
) -> None:
    """Set the address of an unsaved source, and its password or that one's place.

    Raises ``DSNError``.

    ``known`` is the present address, ``known_ref`` the present place of its password;
    ``has_password`` says that a password entered earlier is kept.
    """
    conninfo, password = split_dsn(dsn)
    check_given(dsn, password_ref, known=known)
    if password_ref:
        check_password_ref(password_ref)
        if password or conninfo.startswith(_ENVIRONMENT):
            raise DSNError(
                "the password is given twice, in the DSN and as a location: remove one of them",
                field="password",
            )
    if not password and not has_password:
        conninfo = with_own_secrets_only(conninfo, password_ref, known=known, known_ref=known_ref)
    source.conninfo, source.password_ref = conninfo, password_ref
    source.sealed_password = seal(password) if password else ""


def check_password_ref(reference: str) -> None:
    """Raise ``DSNError`` unless the text can be the place of a password."""
    name, path = reference.removeprefix(_ENVIRONMENT), reference.removeprefix(_FILE)
    is_variable = reference.startswith(_ENVIRONMENT) and name.isidentifier()
    if not is_variable and (not reference.startswith(f"{_FILE}/") or "\0" in path):
        raise DSNError(
            "write the location of a password as env:NAME or file:/absolute/path", field="password"
        )


def password_at(reference: str) -> str:
    """Return the password in a variable or a file. Raises ``DSNError``, naming only the place."""
    check_password_ref(reference)
    if reference.startswith(_ENVIRONMENT):
        return _variable(reference, "password")
    path = Path(reference.removeprefix(_FILE))
    try:
        # Reading a pipe or a device might block.
        if not stat.S_ISREG(path.stat().st_mode):
            raise DSNError(f"the password file {path} is not a regular file", field="password")
        with path.open("rb") as file:
            text = file.read(_LONGEST_FILE_BYTES + 1)
    except OSError as error:
        raise DSNError(
            f"the password file {path} cannot be read ({error.strerror or 'no such file'}): it "
            "must exist, and replview and its workers must be able to read it",
            field="password",
        ) from None
    try:
        password = text.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        password = ""
    if not password or len(text) > _LONGEST_FILE_BYTES or "\0" in password or "\n" in password:
        raise DSNError(
            f"the password file {path} must hold one line: the password", field="password"
        )
    return password


def _variable(reference: str, field: str = "") -> str:
    name = reference.removeprefix(_ENVIRONMENT)
    if value := os.environ.get(name):
        return value
    raise DSNError(
        f"the environment variable {name} is not set in this process: set it where replview and "
        "its workers are started",
        field=field,
    )


def _parse(dsn: str) -> dict[str, Any]:
    try:
        parts = dict(libpq.conninfo_to_dict(dsn))
    except psycopg.ProgrammingError:
        # libpq's own message repeats the string with its password.
        raise DSNError(
            "the DSN is not a libpq connection string: write "
            "postgresql://user:password@host:port/database, or host=… dbname=… user=…"
        ) from None
    # Only an abstract socket begins with @; otherwise libpq took the end of a password for the
    # host.
    if any("@" in host[1:] for host in str(parts.get("host") or "").split(",") if host[:1] != "/"):
        raise DSNError("the password in the DSN contains an @: write it as %40")
    return parts


def conninfo_from(parts: Mapping[str, str]) -> str:
    """Return ``host=… dbname=…``; libpq refuses unknown parameters when the result is used."""
    return libpq.make_conninfo("", **parts)


def place_of(conninfo: str) -> str:
    """Return where an address leads, to show: ``shop at db.example:5432``."""
    if conninfo.startswith("env:"):
        return conninfo
    try:
        parts = libpq.conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        return "the address"
    if parts.get("service"):
        return f"service {parts['service']}"
    host = parts.get("host") or parts.get("hostaddr") or "the local socket"
    place = f"{host}:{parts['port']}" if parts.get("port") else str(host)
    return f"{parts.get('dbname') or parts.get('user') or 'the database'} at {place}"
