"""Where a source may be, and what an address typed into a page may name.

``REPLVIEW_SOURCE_HOSTS`` bounds the hosts that replview connects to, looked at again before each
connection: a service file or a variable may say something else by now. Names are compared as they
are written and never resolved, as their meaning may change until the connection: a name needs a
pattern of names (``*.db.example``), a written address a network (``10.0.0.0/8``, ``192.0.2.7``), a
socket ``socket`` or the path of its folder.

An address typed into a page comes from somebody who rules replview and not the machine it runs on:
it may name only files below ``REPLVIEW_SOURCE_FILES`` and variables made for this
(``REPLVIEW_SOURCE_VARIABLES``): what stands in either is sent to the server that is named with it.
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
#: Which server it is.
PLACE = ("host", "hostaddr", "port", "service")
#: A path that can never be a file.
NO_PASSWORD_FILE = "/dev/null/none"
#: Those whose value may be a word instead of a path.
_WORDS = {"sslrootcert": ("system",), "passfile": (NO_PASSWORD_FILE,)}
#: Writes a file on this machine: nobody needs that of us.
_NEVER = "sslkeylogfile"
#: A word of ``options``: ``-cname=value``, ``--name=value``, and what some services route by.
_OPTION = re.compile(
    r"(?:-c|--)[a-z_][a-z0-9_.]{0,62}=[^\\]{0,200}|(?:endpoint|project)=[A-Za-z0-9._-]{1,100}",
    re.IGNORECASE,
)
#: The instance's own, whatever the patterns say.
_OURS = re.compile(r"REPLVIEW_(?!SOURCE_)|DJANGO_")


class DSNError(CodedProblem, ValueError):
    """The DSN cannot be used; the text says why without repeating it."""

    code_of_all = "bad_dsn"


def check_address(conninfo: str) -> None:
    """Raise ``DSNError`` unless every host it names may be connected to."""
    parts = parts_of(conninfo)
    if parts.get(_NEVER):
        raise DSNError(f"the DSN names a {_NEVER}, which replview never writes: leave it out")
    allowed: Sequence[str] = settings.SOURCE_HOSTS
    if not allowed:
        return
    if _with_service(parts).get("oauth_issuer"):
        raise DSNError("it names an oauth_issuer, which would be asked besides the server")
    for place in places_of(conninfo):
        if not is_allowed(place, allowed):
            what = f"the host {place[:100]}" if place else "a local socket"
            raise DSNError(
                f"{what} is not among those that this instance may connect to "
                f"(REPLVIEW_SOURCE_HOSTS: {', '.join(allowed)})"
            )


def places_of(conninfo: str) -> list[str]:
    """The hosts, addresses and folders of sockets that libpq connects to; empty text: a socket."""
    parts = _with_service(parts_of(conninfo))
    hosts = several(parts.get("host") or os.environ.get("PGHOST"))
    addresses = several(parts.get("hostaddr") or os.environ.get("PGHOSTADDR"))
    # Where both are given, libpq connects to the address, and the name is for TLS alone; of several
    # hosts one may have none, and is looked up by its name.
    places = [address or host for address, host in zip_longest(addresses, hosts, fillvalue="")]
    return places or [""]


def check_given(dsn: str, password_ref: str = "", *, known: str = "") -> None:
    """Raise ``DSNError`` where an address typed into a page names a file or a variable that pages
    may not name; ``known``: the present address, whose files may stay. Elsewhere who types has the
    machine.
    """
    if not settings.SERVES_PAGES:
        return
    for reference in (dsn, password_ref):
        if reference.startswith(_ENVIRONMENT):
            _check_variable(reference.removeprefix(_ENVIRONMENT))
    if password_ref.startswith(_FILE):
        _check_file("the password", password_ref.removeprefix(_FILE))
    if dsn.startswith(_ENVIRONMENT):
        return
    parts = parts_of(dsn)
    before = {} if known.startswith(_ENVIRONMENT) else parts_of(known)
    moved = any(parts.get(name) != before.get(name) for name in PLACE)
    for name in _FILES:
        value = str(parts.get(name) or "")
        # Passwords of the file are not for another server.
        stays = value == before.get(name) and not (moved and name == "passfile")
        if value and not stays and value not in _WORDS.get(name, ()):
            _check_file(name, value)
    options = re.sub(r"(^|\s)-c\s+", r"\1-c", str(parts.get("options") or ""))
    if not all(_OPTION.fullmatch(word) for word in options.split()):
        raise DSNError("options may hold only -c name=value, endpoint=… and project=…")


def _check_variable(name: str) -> None:
    patterns: Sequence[str] = settings.SOURCE_VARIABLES
    if _OURS.match(name) or not any(fnmatchcase(name, pattern) for pattern in patterns):
        raise DSNError(
            f"the variable {name[:100]} may not be named in a page: those that may match "
            f"{', '.join(patterns)} (REPLVIEW_SOURCE_VARIABLES)"
        )


def _check_file(what: str, text: str) -> None:
    """Where links lead counts, not how a path is spelled."""
    folders: Sequence[str] = settings.SOURCE_FILES
    path = Path(text).resolve()
    if not text.startswith("/") or not any(
        path.is_relative_to(Path(folder).resolve()) for folder in folders
    ):
        where = f"below {' or '.join(folders)}" if folders else "nowhere, until that is set"
        raise DSNError(
            f"the file of {what} is outside of where pages may name files: {where} "
            "(REPLVIEW_SOURCE_FILES); on the command line any may be named"
        )


def is_allowed(place: str, allowed: Sequence[str]) -> bool:
    """Whether a host, an address or a socket's folder is among these patterns."""
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
    """``a,b``: libpq tries each; an empty one is the local socket."""
    return [] if not value else [one.strip() for one in str(value).split(",")]


def _with_service(parts: Mapping[str, object]) -> dict[str, object]:
    """With what its service adds; what is given itself comes first, as in libpq."""
    name = parts.get("service") or os.environ.get("PGSERVICE")
    if not name:
        return dict(parts)
    for path in _service_files(parts):
        found = _service_in(path, str(name))
        if found is None:
            continue
        if any(key.startswith("ldap") for key in found):
            raise DSNError("its service asks a directory (LDAP) where the server is")
        return {**found, **parts}
    raise DSNError("its service is in no service file of this user")


def _service_files(parts: Mapping[str, object]) -> list[Path]:
    """Where libpq looks, in its order."""
    own = parts.get("servicefile") or os.environ.get("PGSERVICEFILE")
    shared = os.environ.get("PGSYSCONFDIR")
    first = Path(str(own)) if own else Path("~/.pg_service.conf").expanduser()
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
    """What a connection string says, by parameter. Raises ``DSNError``."""
    try:
        return dict(libpq.conninfo_to_dict(conninfo))
    except psycopg.ProgrammingError:
        # libpq's own message repeats the string, password and all.
        raise DSNError("the DSN is not a libpq connection string") from None
