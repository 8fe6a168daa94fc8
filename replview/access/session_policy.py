"""How long a login lasts: so long at most, and so long after somebody last did something.

A page that refreshes itself does nothing: a browser left open is signed out all the same.
"""

import time
from typing import Any

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import connection
from django.utils import timezone

SIGNED_IN_AT, ACTIVE_AT = "signed_in_at", "active_at"
#: Activity is noted no more often than this.
_NOTED_SECONDS = 60


def begin(session: Any) -> None:
    """Somebody has just signed in."""
    session[SIGNED_IN_AT] = session[ACTIVE_AT] = int(time.time())


def is_over(session: Any) -> bool:
    """Whether the login has ended by its age or its idleness."""
    now = time.time()
    began, active = session.get(SIGNED_IN_AT), session.get(ACTIVE_AT)
    if began is not None and now - began > settings.SESSION_COOKIE_AGE:
        return True
    idle = settings.SESSION_IDLE_SECONDS
    return bool(idle and active is not None and now - active > idle)


def note_activity(session: Any) -> None:
    """Somebody did something."""
    now, active = int(time.time()), session.get(ACTIVE_AT)
    if session.get(SIGNED_IN_AT) is None:
        session[SIGNED_IN_AT] = now
    if active is None or now - active >= _NOTED_SECONDS:
        session[ACTIVE_AT] = now


def forget_ended() -> None:
    """Sessions that are over, and failed logins that count no more: each names somebody."""
    now = timezone.now()
    Session.objects.filter(expire_date__lt=now).delete()
    with connection.cursor() as cursor:
        before = now - settings.AXES_COOLOFF_TIME
        cursor.execute("DELETE FROM axes_accessattempt WHERE attempt_time < %s", [before])
