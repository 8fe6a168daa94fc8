"""Tokens with which programs use the API: made, known again, revoked.

A token is shown once, when it is made; the store keeps its SHA-256, which is enough to know it
again and of no use to anybody who reads the store.
"""

import datetime as dt
import hashlib
import secrets

from django.contrib.auth.models import User
from django.db.models import Q
from django.utils import timezone

from replview.access.rights import Role, role_of, visible_sources
from replview.store.models import ApiToken
from replview.text.problem import CodedProblem

Scope = ApiToken.Scope

#: What every token begins with, so that it is recognised where it leaks to.
PREFIX = "rv_"
_HINT_CHARACTERS = 8
#: Its use is noted no more often than this.
_NOTED_SECONDS = 60
#: The role that somebody needs to have a token of this scope.
NEEDED = {
    Scope.METRICS: Role.OPERATOR,
    Scope.READ: Role.VIEWER,
    Scope.EXPORT: Role.OPERATOR,
    Scope.OPERATE: Role.OPERATOR,
}


class ScopeRefused(CodedProblem):
    """The scope is more than its user may."""

    code_of_all = "refused_scope"


def _refusal(user: User, scope: str) -> str:
    """Why the scope exceeds what the user may; empty: it does not."""
    role, needed = role_of(user), NEEDED[Scope(scope)]
    if role is None or role < needed:
        has = role.word if role else "none"
        return f"a token that may {scope!r} needs the role {needed.word}, not {has}"
    if scope == Scope.METRICS and visible_sources(user) is not None:
        return "metrics tell of every source, and this account sees some of them"
    return ""


def scopes_for(user: User) -> list[Scope]:
    return [scope for scope in Scope if not _refusal(user, scope)]


def may_read_metrics(row: ApiToken) -> bool:
    """Metrics tell of every source: with a token made for them, or any of an admin."""
    made_for_them = row.scope == Scope.METRICS and not _refusal(row.user, row.scope)
    return made_for_them or role_of(row.user) is Role.ADMIN


def make_token(
    user: User, name: str, *, days: int | None = None, scope: str = Scope.READ
) -> tuple[str, ApiToken]:
    """A new token for this user, and its row; ``days``: how long it is good for.

    Raises ``ScopeRefused``.
    """
    if refusal := _refusal(user, scope):
        raise ScopeRefused(refusal)
    token = PREFIX + secrets.token_urlsafe(32)
    expires_at = None if days is None else timezone.now() + dt.timedelta(days=days)
    row = ApiToken.objects.create(
        user_id=user.pk,
        name=name,
        digest=_digest(token),
        hint=token[:_HINT_CHARACTERS],
        scope=scope,
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
