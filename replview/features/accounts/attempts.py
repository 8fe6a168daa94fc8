"""Check the passwords and codes that somebody enters, with limits on failed attempts.

Failed attempts are counted by user name and address together, so that nobody can lock out another
user at that user's own address. They are also counted by address alone, with a higher limit,
against attempts with many names.
"""

import datetime as dt

from axes.helpers import get_cool_off, get_failure_limit
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_login_failed
from django.db import transaction
from django.db.models import Max, Sum
from django.http import HttpRequest
from django.utils import timezone

from replview.access import second_factor
from replview.store.models import SecondFactor
from replview.store.secrets import SecretKeyChanged
from replview.text.formats import age_words

_WRONG_CODE = (
    "This code is wrong, or was used already. Enter the one that the app shows now, or a recovery "
    "code."
)
_NO_MORE_CODES = (
    "Too many wrong codes were entered. Use a recovery code, or ask an admin to remove the second "
    "factor."
)
_NO_SECRET = (
    "Codes of the app cannot be checked, because REPLVIEW_SECRET_KEY has changed. Use a recovery "
    "code, or ask an admin to remove the second factor."
)


def address_of(request: HttpRequest) -> str:
    """Return the client's address from the web server; forwarding headers are not trusted."""
    return str(request.META.get("REMOTE_ADDR") or "")


def locked_until(request: HttpRequest, username: str) -> dt.datetime | None:
    """Return until when this user name or address is locked out, or None if it is not."""
    cool_off = get_cool_off(request)
    if cool_off is None:
        return None
    recent = AccessAttempt.objects.filter(
        ip_address=address_of(request) or None, attempt_time__gt=timezone.now() - cool_off
    )
    for attempts, limit in (
        (recent.filter(username=username), get_failure_limit(request, {"username": username})),
        (recent, settings.LOGIN_FAILURES_OF_ADDRESS),
    ):
        totals = attempts.aggregate(failures=Sum("failures_since_start"), last=Max("attempt_time"))
        if (totals["failures"] or 0) >= limit and totals["last"]:
            until: dt.datetime = totals["last"] + cool_off
            return until
    return None


def wrong_password(request: HttpRequest, user: User, password: str) -> str:
    """Return why the current password that was entered is refused; empty: it is right."""
    until = locked_until(request, user.get_username())
    # Failed attempts count like failed logins, so a stolen session cannot guess passwords faster.
    if until is None and not authenticate(request, username=user.get_username(), password=password):
        until = locked_until(request, user.get_username())
        if until is None:
            return "The current password is wrong."
    return _lockout_text(until)


@transaction.atomic
def wrong_code(request: HttpRequest, user: User, code: str) -> str:
    """Return why the code that was entered is refused; empty: it is right, and used by now."""
    # The lock lets one attempt at a time through, so that none escapes the limit.
    factor = SecondFactor.objects.select_for_update().filter(user=user).first()
    name, refusal = user.get_username(), _WRONG_CODE
    until = locked_until(request, name)
    if until is not None:
        return _lockout_text(until)
    try:
        if factor is not None and second_factor.accepts(factor, code):
            return ""
    except SecretKeyChanged:
        refusal = _NO_SECRET
    # Count and record it like a failed login.
    credentials = {"username": name, "step": "second factor"}
    user_login_failed.send(sender=__name__, credentials=credentials, request=request)
    if factor is not None and factor.failures >= second_factor.MOST_FAILURES:
        refusal = _NO_MORE_CODES
    return _lockout_text(locked_until(request, name)) or refusal


def _lockout_text(until: dt.datetime | None) -> str:
    if until is None:
        return ""
    return f"Too many failed attempts. Try again in {age_words(until - timezone.now())}."
