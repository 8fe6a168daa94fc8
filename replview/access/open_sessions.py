"""This module lists the sessions of one account, and ends single ones."""

import datetime as dt
import hashlib
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from replview.access.accounts import sessions_of

#: Keys of a session's data: the times at which it began and was last used.
SIGNED_IN_AT, ACTIVE_AT = "signed_in_at", "active_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession:
    """A session of a browser that is signed in."""

    #: Identifier for pages; it is not the key, with which one could sign in.
    name: str
    #: None: unknown, for a session from an older version.
    began_at: dt.datetime | None
    active_at: dt.datetime | None
    #: True for the session of the current request.
    is_here: bool


def open_sessions(user: User, current_key: str | None) -> list[OpenSession]:
    """Return the account's sessions, last used first.

    ``current_key`` is the key of the request's session; None where there is none.
    """
    sessions = []
    for row in sessions_of(user):
        data = row.get_decoded()
        sessions.append(
            OpenSession(
                name=_name_of(row.session_key),
                began_at=_time(data.get(SIGNED_IN_AT)),
                active_at=_time(data.get(ACTIVE_AT)),
                is_here=row.session_key == current_key,
            )
        )
    return sorted(sessions, key=_used_at, reverse=True)


def end_session(user: User, name: str) -> bool:
    """End one of the account's sessions; return False if it has none of this name."""
    sessions = [session for session in sessions_of(user) if _name_of(session.session_key) == name]
    for session in sessions:
        session.delete()
    return bool(sessions)


def make_room(user: User) -> None:
    """End the sessions unused for longest, so that one more stays within the limit."""
    rows = {_name_of(row.session_key): row for row in sessions_of(user)}
    for session in open_sessions(user, None)[max(0, settings.SESSIONS_OF_ACCOUNT - 1) :]:
        rows[session.name].delete()


def _name_of(session_key: str) -> str:
    return hashlib.sha256(session_key.encode()).hexdigest()[:16]


def _time(seconds: Any) -> dt.datetime | None:
    return dt.datetime.fromtimestamp(seconds, dt.UTC) if isinstance(seconds, int) else None


def _used_at(session: OpenSession) -> float:
    return session.active_at.timestamp() if session.active_at is not None else 0.0
