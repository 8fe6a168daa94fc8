"""Tokens with which programs read the API: made, known again, revoked.

A token is shown once, when it is made; the store keeps its SHA-256, which is enough to know it
again and of no use to anybody who reads the store.
"""

import datetime as dt
import hashlib
import secrets

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Q
from django.utils import timezone

from replview.store.models import ApiToken

#: What every token begins with, so that it is recognised where it leaks to.
PREFIX = "rv_"
_HINT_CHARACTERS = 8
#: Its use is noted no more often than this.
_NOTED_SECONDS = 60


def make_token(
    user: AbstractBaseUser, name: str, *, days: int | None = None
) -> tuple[str, ApiToken]:
    """A new token for this user, and its row; ``days``: how long it is good for."""
    token = PREFIX + secrets.token_urlsafe(32)
    expires_at = None if days is None else timezone.now() + dt.timedelta(days=days)
    row = ApiToken.objects.create(
        user_id=user.pk,
        name=name,
        digest=_digest(token),
        hint=token[:_HINT_CHARACTERS],
        expires_at=expires_at,
    )
    return token, row


def good_token(token: str) -> ApiToken | None:
    """The token's row with its user; None where it is unknown, revoked, expired, or its user's
    account is closed.
    """
    now = timezone.now()
    row = (
        ApiToken.objects.select_related("user")
        .filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now))
        .filter(digest=_digest(token), revoked_at__isnull=True, user__is_active=True)
        .first()
    )
    if row is not None and (
        row.last_used_at is None or (now - row.last_used_at).total_seconds() > _NOTED_SECONDS
    ):
        ApiToken.objects.filter(pk=row.pk).update(last_used_at=now)
    return row


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
