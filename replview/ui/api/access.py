"""Who may use the API: a program with a token, or a browser that has signed in.

A token is looked at by ``TokenMiddleware``, before anything that asks who the user is; what its
scope allows is judged with the table of roles, by ``replview.access.guard``.
"""

from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from django.utils.deprecation import MiddlewareMixin
from django.utils.functional import SimpleLazyObject
from ninja.security import HttpBearer

from replview.access.rights import Role, role_of
from replview.access.tokens import good_token, may_read_metrics
from replview.store.models import ApiToken

_UNREAD = object()


class TokenMiddleware(MiddlewareMixin):
    """Within ``/api/`` a request with a token is its user's, whatever cookie it brings."""

    def process_request(self, request: HttpRequest) -> None:
        """Nothing is read before somebody asks for the user."""
        if request.path_info.startswith("/api/") and bearer(request) is not None:
            user: Any = SimpleLazyObject(lambda: _user_of(request))
            request.user = user


def bearer(request: HttpRequest) -> str | None:
    """What stands after ``Bearer``; None: nothing does."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def token_of(request: HttpRequest) -> ApiToken | None:
    """The good token that the request brings, read once."""
    found: Any = getattr(request, "replview_token", _UNREAD)
    if found is _UNREAD:
        text = bearer(request)
        found = good_token(text) if text else None
        request.replview_token = found  # type: ignore[attr-defined]
    row: ApiToken | None = found
    return row


def _user_of(request: HttpRequest) -> User | AnonymousUser:
    row = token_of(request)
    return AnonymousUser() if row is None else row.user


class Token(HttpBearer):
    """``Authorization: Bearer rv_…``; see ``replview token create``."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        """The token's user, or None."""
        row = token_of(request)
        return None if row is None else row.user


def signed_in(request: HttpRequest) -> User | None:
    """A browser's session: every call here reads, so no forged request can do harm."""
    return request.user if request.user.is_authenticated else None


def metrics_refusal(request: HttpRequest) -> int | None:
    """The status to refuse ``/metrics`` with; None: let it be read.

    It tells of every source: with a token that is made for it, or as an admin.
    """
    if bearer(request) is not None:
        row = token_of(request)
        if row is None:
            return 401
        return None if may_read_metrics(row) else 403
    if not request.user.is_authenticated:
        return 401
    return None if role_of(request.user) is Role.ADMIN else 403
