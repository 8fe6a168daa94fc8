"""API tokens for programs: create, verify and revoke them.

A token is shown once, when it is created. The store keeps its SHA-256, which is enough to verify
it and useless to anybody who reads the store.
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

#: The first characters of every token, which identify a leaked one.
PREFIX = "rv_"
_HINT_CHARACTERS = 8
#: Least seconds between two updates of a token's last use.
_UPDATE_EVERY_SECONDS = 60
#: The least role with which an account may have a token of this scope.
NEEDED = {
    Scope.METRICS: Role.OPERATOR,
    Scope.READ: Role.VIEWER,
    Scope.EXPORT: Role.OPERATOR,
    Scope.OPERATE: Role.OPERATOR,
}


class ScopeRefused(CodedProblem):
    """The scope exceeds the rights of the token's user."""

    code_of_all = "refused_scope"


def _refusal(user: User, scope: str) -> str:
    """Return why the scope exceeds the user's rights; empty where it does not."""
    role, needed = role_of(user), NEEDED[Scope(scope)]
    if role is None or role < needed:
        role_name = role.word if role else "none"
        return f"a token that may {scope!r} needs the role {needed.word}, not {role_name}"
    if scope == Scope.METRICS and visible_sources(user) is not None:
        return "metrics cover every source, and this account may see only some of them"
    return ""


def scopes_for(user: User) -> list[Scope]:
    """Return the scopes that the user's rights allow."""
    return [scope for scope in Scope if not _refusal(user, scope)]


def may_read_metrics(row: ApiToken) -> bool:
    """Return whether a token may read metrics, which cover every source.

    A token of scope ``metrics`` may, and any token of an admin.
    """
    has_metrics_scope = row.scope == Scope.METRICS and not _refusal(row.user, row.scope)
    return has_metrics_scope or role_of(row.user) is Role.ADMIN


def make_token(
    user: User, name: str, *, days: int | None = None, scope: str = Scope.READ
) -> tuple[str, ApiToken]:
    """Create a token, valid for ``days`` or forever; return it and its row.

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
    """Return the row of a valid token with its user, and note its use.

    None where it is unknown, revoked or expired, or its user's account is closed.
    """
    now = timezone.now()
    row = (
        ApiToken.objects.select_related("user")
        .filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now))
        .filter(digest=_digest(token), revoked_at__isnull=True, user__is_active=True)
        .first()
    )
    if row is not None and (
        row.last_used_at is None or (now - row.last_used_at).total_seconds() > _UPDATE_EVERY_SECONDS
    ):
        ApiToken.objects.filter(pk=row.pk).update(last_used_at=now)
    return row


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
