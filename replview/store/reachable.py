"""This module decides which hosts a source may be on, and what an address in a page may name.

``REPLVIEW_SOURCE_HOSTS`` limits the hosts that replview connects to. It is checked before each
connection, since a service file or a variable may have changed. Names are compared as written and
never resolved, since their meaning may change before the connection: a name must match a pattern of
names (``*.db.example``), an address a network (``10.0.0.0/8``, ``192.0.2.7``), a socket the word
``socket`` or the path of its folder.

A person who types an address into a page controls replview, but not the machine it runs on. The
address may name only files below ``REPLVIEW_SOURCE_FILES`` and variables that match
``REPLVIEW_SOURCE_VARIABLES``: their contents are sent to the server in that address.
"""

import configparser
import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import zip_longest
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from psycopg import conninfo as libpq

from replview.text.problem import CodedProblem

_ENVIRONMENT, _FILE = "env:", "file:"
#: Parameters of libpq that name a file or a folder to read.
_FILES = ("passfile", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir", "servicefile")
#: Parameters of libpq that identify the server.
PLACE = ("host", "hostaddr", "port", "service")
#: A path that can never be a file.
NO_PASSWORD_FILE = "/dev/null/none"
#: Words that these parameters allow instead of a path.
_ALLOWED_WORDS = {"sslrootcert": ("system",), "passfile": (NO_PASSWORD_FILE,)}
#: A parameter that writes a file on this machine, which replview never allows.
_KEY_LOG = "sslkeylogfile"
#: An allowed word of ``options``: ``-cname=value``, ``--name=value``, and what some services route
#: by.
_OPTION = re.compile(
    r"(?:-c|--)[a-z_][a-z0-9_.]{0,62}=[^\\]{0,200}|(?:endpoint|project)=[A-Za-z0-9._-]{1,100}",
    re.IGNORECASE,
)
#: Variables of the instance itself, which are never allowed.
_INSTANCE_VARIABLES = re.compile(r"REPLVIEW_(?!SOURCE_)|DJANGO_")


class DSNError(CodedProblem, ValueError):
    """The DSN cannot be used; the text says why without repeating it.

    ``field`` is the parameter of libpq to correct, such as ``password``; empty for the whole DSN.
    """

    code_of_all = "bad_dsn"


def check_address(conninfo: str) -> None:
    """Raise ``DSNError`` unless replview may connect to every host in the address."""
    parts = parts_of(conninfo)
    if parts.get(_KEY_LOG):
        raise DSNError(f"the DSN names a {_KEY_LOG}, which replview never writes: leave it out")
    allowed: Sequence[str] = settings.SOURCE_HOSTS
    if not allowed:
        return
    if _with_service(parts).get("oauth_issuer"):
        raise DSNError(
            "the DSN names an oauth_issuer, to which libpq would also connect: remove it"
        )
    for host in places_of(conninfo):
        if not is_allowed(host, allowed):
            subject = f"the host {host[:100]}" if host else "a local socket"
            raise DSNError(
                f"this instance may not connect to {subject} "
                f"(REPLVIEW_SOURCE_HOSTS allows: {', '.join(allowed)})",
                field="host",
            )


def places_of(conninfo: str) -> list[str]:
    """Return the hosts, addresses and socket folders that libpq connects to; empty: a socket."""
    parts = _with_service(parts_of(conninfo))
    hosts = several(parts.get("host") or os.environ.get("PGHOST"))
    addresses = several(parts.get("hostaddr") or os.environ.get("PGHOSTADDR"))
    # If both are given, libpq connects to the address, and uses the name for TLS only; one of
    # several hosts may have no address, and is looked up by its name.
    places = [address or host for address, host in zip_longest(addresses, hosts, fillvalue="")]
    return places or [""]


def check_given(dsn: str, password_ref: str = "", *, known: str = "") -> None:
    """Raise ``DSNError`` if an address typed into a page names a file or variable it may not name.

    ``known`` is the present address, whose files may stay. On the command line there is no check:
    its user controls the machine.
    """
    if not settings.SERVES_PAGES:
        return
    if password_ref.startswith(_ENVIRONMENT):
        _check_variable(password_ref.removeprefix(_ENVIRONMENT), "password")
    if password_ref.startswith(_FILE):
        _check_file("password", password_ref.removeprefix(_FILE))
    if dsn.startswith(_ENVIRONMENT):
        _check_variable(dsn.removeprefix(_ENVIRONMENT))
        return
    parts = parts_of(dsn)
    before = {} if known.startswith(_ENVIRONMENT) else parts_of(known)
    is_other_server = any(parts.get(name) != before.get(name) for name in PLACE)
    for name in _FILES:
        value = str(parts.get(name) or "")
        # The passwords in the file are not meant for another server.
        is_unchanged = value == before.get(name) and not (is_other_server and name == "passfile")
        if value and not is_unchanged and value not in _ALLOWED_WORDS.get(name, ()):
            _check_file(name, value)
    options = re.sub(r"(^|\s)-c\s+", r"\1-c", str(parts.get("options") or ""))
    if not all(_OPTION.fullmatch(option) for option in options.split()):
        raise DSNError("options may hold only -c name=value, endpoint=… and project=…")


def _check_variable(name: str, field: str = "") -> None:
    patterns: Sequence[str] = settings.SOURCE_VARIABLES
    if _INSTANCE_VARIABLES.match(name) or not any(
        fnmatchcase(name, pattern) for pattern in patterns
    ):
        raise DSNError(
            f"pages may not use the environment variable {name[:100]} "
            f"(REPLVIEW_SOURCE_VARIABLES allows: {', '.join(patterns)})",
            field=field,
        )


def _check_file(field: str, text: str) -> None:
    """Raise ``DSNError`` unless the file is below an allowed folder, with links resolved."""
    folders: Sequence[str] = settings.SOURCE_FILES
    path = Path(text).resolve()
    if not text.startswith("/") or not any(
        path.is_relative_to(Path(folder).resolve()) for folder in folders
    ):
        subject = "the password" if field == "password" else field
        where = f"below {' or '.join(folders)}" if folders else "in no folder"
        raise DSNError(
            f"pages may not use this file for {subject}: REPLVIEW_SOURCE_FILES allows files "
            f"{where}; the command line accepts every file",
            field=field,
        )


def is_allowed(place: str, allowed: Sequence[str]) -> bool:
    """Return whether a host, an address or a socket's folder matches one of these patterns."""
    if not place or place.startswith(("/", "@")):
        folder = place.rstrip("/")
        return "socket" in allowed or (bool(folder) and folder in [a.rstrip("/") for a in allowed])
    try:
        address = ipaddress.ip_address(place.strip("[]").partition("%")[0])
    except ValueError:
        name = place.rstrip(".").lower()
        return any(fnmatchcase(name, pattern.lower()) for pattern in allowed if "/" not in pattern)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    for pattern in allowed:
        with suppress(ValueError):
            if address in ipaddress.ip_network(pattern.strip("[]"), strict=False):
                return True
    return False


def several(value: object) -> list[str]:
    """Return the values of ``a,b``, which libpq tries in turn; an empty one is the local socket."""
    return [] if not value else [part.strip() for part in str(value).split(",")]


def _with_service(parts: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters with those of the service added; explicit ones win, as in libpq."""
    name = parts.get("service") or os.environ.get("PGSERVICE")
    if not name:
        return dict(parts)
    for path in _service_files(parts):
        service = _service_in(path, str(name))
        if service is None:
            continue
        if any(key.startswith("ldap") for key in service):
            raise DSNError("the DSN's service looks up the server by LDAP, which is not supported")
        return {**service, **parts}
    raise DSNError("no connection service file of this user defines the DSN's service")


def _service_files(parts: Mapping[str, object]) -> list[Path]:
    """Return the service files that libpq reads, in its order."""
    user_file = parts.get("servicefile") or os.environ.get("PGSERVICEFILE")
    shared = os.environ.get("PGSYSCONFDIR")
    first = Path(str(user_file)) if user_file else Path("~/.pg_service.conf").expanduser()
    folders = [shared] if shared else ["/etc/postgresql-common", "/etc", "/usr/local/etc"]
    return [first, *(Path(folder) / "pg_service.conf" for folder in folders)]


def _service_in(path: Path, name: str) -> dict[str, str] | None:
    parser = configparser.RawConfigParser(
        strict=False, allow_no_value=True, delimiters=("=",), inline_comment_prefixes=None,
        comment_prefixes=("#",), default_section="\0",
    )  # fmt: skip
    try:
        parser.read_string(path.read_text())
    except (OSError, UnicodeDecodeError):
        return None
    except configparser.Error:
        raise DSNError(f"the service file {path} cannot be read") from None
    if not parser.has_section(name):
        return None
    return {key: value or "" for key, value in parser.items(name)}


def parts_of(conninfo: str) -> dict[str, Any]:
    """Return the parameters of a connection string. Raises ``DSNError``."""
    try:
        return dict(libpq.conninfo_to_dict(conninfo))
    except psycopg.ProgrammingError:
        # libpq's own message repeats the string with its password.
        raise DSNError("the DSN is not a libpq connection string") from None
