"""End sessions that are too old or idle for too long.

This module also writes sign-ins, refused sign-ins and sign-outs into the access record.
"""

import time
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import get_user_model, logout
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.contrib.sessions.models import Session
from django.db import connection
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone
from django.utils.deprecation import MiddlewareMixin

from replview.access.open_sessions import ACTIVE_AT, SIGNED_IN_AT, make_room
from replview.access.page import page_of
from replview.access.rights import Visitor
from replview.store.write.access_record import Action, note
from replview.text.parsing import clean_text

#: Least seconds between two updates of a session's activity.
_UPDATE_EVERY_SECONDS = 60


class SessionPolicyMiddleware(MiddlewareMixin):
    """The middleware that checks the session of each request that has one."""

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]
    ) -> None:
        """Sign out a session that is over; otherwise note the user's activity."""
        if not request.session.session_key or not request.user.is_authenticated:
            return
        # Authentication has run by now. A request with a token has no session to check.
        if getattr(request, "replview_token", None):
            return
        if is_over(request.session):
            logout(request)
        elif not _is_polling(request):
            note_activity(request.session)


def _is_polling(request: HttpRequest) -> bool:
    """Return whether the open page polled by itself, without an act of its user."""
    match = request.resolver_match
    page = page_of(match.func) if match is not None else None
    if page is not None and page.polled:
        return True
    page_path = urlsplit(request.headers.get("HX-Current-URL", "")).path
    return request.method == "GET" and page_path == request.path


@receiver(user_logged_in, dispatch_uid="replview.session_policy")
def _record_sign_in(sender: Any, request: HttpRequest, user: Visitor, **kwargs: Any) -> None:
    begin(request.session)
    if isinstance(user, User):
        make_room(user)
    note(Action.SIGNED_IN, user=user)


@receiver(user_login_failed, dispatch_uid="replview.access.sign_in_failed")
def _record_refusal(sender: Any, credentials: dict[str, Any], **_: Any) -> None:
    """Record the account's name if it exists; other typed text may be a password."""
    model = get_user_model()
    typed = clean_text(credentials.get(model.USERNAME_FIELD), strip=False)
    account = model._default_manager.filter(**{model.USERNAME_FIELD: typed}).first()
    note(
        Action.SIGN_IN_FAILED,
        user=account if account is not None else "",
        subject="" if account is not None else "an account that does not exist",
        details={"step": credentials["step"]} if "step" in credentials else None,
    )


@receiver(user_logged_out, dispatch_uid="replview.access.signed_out")
def _record_sign_out(sender: Any, user: Visitor, **_: Any) -> None:
    if user is not None:
        note(Action.SIGNED_OUT, user=user)


def begin(session: Any) -> None:
    """Store the time of signing in, in the session of a new login."""
    session[SIGNED_IN_AT] = session[ACTIVE_AT] = int(time.time())


def is_over(session: Any) -> bool:
    """Return whether the login has ended by its age or its idleness."""
    now = time.time()
    began_at, active_at = session.get(SIGNED_IN_AT), session.get(ACTIVE_AT)
    if began_at is not None and now - began_at > settings.SESSION_COOKIE_AGE:
        return True
    idle = settings.SESSION_IDLE_SECONDS
    return bool(idle and active_at is not None and now - active_at > idle)


def note_activity(session: Any) -> None:
    """Store the time of the last activity, at most once a minute."""
    now, active_at = int(time.time()), session.get(ACTIVE_AT)
    if session.get(SIGNED_IN_AT) is None:
        session[SIGNED_IN_AT] = now
    if active_at is None or now - active_at >= _UPDATE_EVERY_SECONDS:
        session[ACTIVE_AT] = now


def forget_ended() -> None:
    """Delete ended sessions and expired failed logins, because both name a person."""
    now = timezone.now()
    Session.objects.filter(expire_date__lt=now).delete()
    with connection.cursor() as cursor:
        before = now - settings.AXES_COOLOFF_TIME
        cursor.execute("DELETE FROM axes_accessattempt WHERE attempt_time < %s", [before])
