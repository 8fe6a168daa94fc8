"""Secrets that an address uses without containing them may be sent only to certain servers.

A person who types an address into a page controls replview, but not the machine it runs on. A
password from a service file, a password file or a variable of that machine goes only to servers
that its owner meant, and is proved (SCRAM) rather than sent. On the command line the user controls
the machine, and libpq works as usual; but a password that is named by its place (``env:NAME``,
``file:/path``) still goes only to the hosts that it is for, unless ``--trust-host`` is given.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

from django.conf import settings
from psycopg import conninfo as libpq

from replview.store.reachable import (
    NO_PASSWORD_FILE,
    PLACE,
    DSNError,
    is_allowed,
    parts_of,
    places_of,
    several,
)

#: Authentication methods that do not let the server read a password, or need none.
UNREAD = "scram-sha-256,gss,sspi,none"
#: True if the command that runs in this process was given ``--trust-host``.
_trusts_hosts = False


@contextmanager
def trusting_hosts(is_trusted: bool) -> Iterator[None]:
    """Let a command send kept passwords to the hosts that it names, for as long as it runs."""
    global _trusts_hosts
    before, _trusts_hosts = _trusts_hosts, is_trusted
    try:
        yield
    finally:
        _trusts_hosts = before


def with_own_secrets_only(
    conninfo: str, password_ref: str = "", *, known: str = "", known_ref: str = ""
) -> str:
    """Return an address from a page, without a password, restricted so that no secret leaks.

    No secret then goes to a server that it is not meant for. On the command line the address is
    returned unchanged. ``password_ref`` is the place of the password; ``known`` and ``known_ref``
    are the present address and the place of its password. Raises ``DSNError``.
    """
    if conninfo.startswith("env:"):
        return conninfo
    if not settings.SERVES_PAGES:
        if password_ref:
            check_bound(password_ref, conninfo, known if password_ref == known_ref else "")
        return conninfo
    parts = parts_of(conninfo)
    if parts.get("gssdelegation", "0") != "0":
        raise DSNError("gssdelegation would lend replview's own credentials to the server")
    before = {} if known.startswith("env:") else parts_of(known)
    if password_ref:
        check_bound(password_ref, conninfo)
    elif before and all(parts.get(name) == before.get(name) for name in (*PLACE, "passfile")):
        # The server, and the secrets sent to it, stay the same.
        required = {name: before[name] for name in ("require_auth",) if name in before}
        return libpq.make_conninfo("", **{**parts, **required})
    elif parts.get("service"):
        _check_service(parts)
    else:
        parts = {**parts, **_password_file(parts)}
    _check_proved(parts)
    return libpq.make_conninfo("", **{"require_auth": UNREAD, **parts})


def check_bound(reference: str, conninfo: str, known: str = "") -> None:
    """Raise ``DSNError`` unless the settings allow this password for every server of the address.

    ``reference`` is the password's place (``env:NAME``, ``file:/path``); ``known`` is an address
    that it is sent to already, which a command may give again.
    """
    if conninfo.startswith("env:"):
        return
    if not settings.SERVES_PAGES and (_trusts_hosts or _is_same_place(conninfo, known)):
        return
    advice = "type the password" if settings.SERVES_PAGES else "give --trust-host"
    bound: Mapping[str, Sequence[str]] = settings.SOURCE_PASSWORDS
    for place in places_of(conninfo):
        if not is_allowed(place, bound.get(reference, ())):
            raise DSNError(
                f"the password at {reference[:100]} is not for {place[:100] or 'a local socket'}: "
                "who has the machine says for which hosts it is (REPLVIEW_SOURCE_PASSWORDS), or "
                f"{advice}",
                field="password",
            )


def _is_same_place(conninfo: str, other: str) -> bool:
    """Return whether both addresses lead to the same server."""
    if not other or other.startswith("env:"):
        return False
    parts, other_parts = parts_of(conninfo), parts_of(other)
    return all(parts.get(name) == other_parts.get(name) for name in PLACE)


def _check_service(parts: Mapping[str, object]) -> None:
    if parameter := next((name for name in PLACE if name != "service" and parts.get(name)), None):
        raise DSNError(
            f"service and {parameter}: the password of a service is for its own server. Leave out "
            f"{parameter}, or type the password",
            field="password",
        )


def _check_proved(parts: Mapping[str, object]) -> None:
    methods = str(parts.get("require_auth") or UNREAD).split(",")
    if not {method.strip() for method in methods} <= set(UNREAD.split(",")):
        raise DSNError(
            f"require_auth may name only {UNREAD} where the password is not typed: it is proved, "
            "never sent"
        )


def _password_file(parts: Mapping[str, object]) -> dict[str, str]:
    """Return the ``passfile`` parameter: libpq's default if each host has a line there, else none.

    Raises ``DSNError`` if a file is named that lacks a host's line.
    """
    for name in ("PGSERVICE", "PGPASSWORD"):
        if os.environ.get(name):
            raise DSNError(
                f"{name} is set in replview's environment, and its password would be sent: type "
                "the password",
                field="password",
            )
    hosts, addresses = several(parts.get("host")), several(parts.get("hostaddr"))
    passfile = str(parts.get("passfile") or "")
    path = passfile or os.environ.get("PGPASSFILE") or str(Path("~/.pgpass").expanduser())
    # libpq searches the file for the name, but connects to the address.
    has_both = any(host and address for host, address in zip_longest(hosts, addresses))
    if hosts + addresses and not has_both and all(_has_line(path, h) for h in hosts or addresses):
        return {}
    if passfile not in ("", NO_PASSWORD_FILE):
        raise DSNError(
            "the password file has no line of this host's own before one for all (*), or the "
            "address has a host and a hostaddr: name the host there, or type the password",
            field="password",
        )
    return {"passfile": NO_PASSWORD_FILE}


def _has_line(path: str, host: str) -> bool:
    """Return whether the first line in a password file that fits the host names the host itself."""
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    first = (line.partition(":")[0] for line in lines if line[:1] != "#")
    return next((name == host for name in first if name in ("*", host)), False)
