"""Access to the API, by a program with a token or by a browser that has signed in.

``TokenMiddleware`` reads the token before anything needs the user. ``replview.access.guard``
checks its scope together with the role.
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
    """The middleware that makes a token's user that of an ``/api/`` request, despite cookies."""

    def process_request(self, request: HttpRequest) -> None:
        """Set a lazy user, so that the token is read only when the user is needed."""
        if request.path_info.startswith("/api/") and bearer(request) is not None:
            user: Any = SimpleLazyObject(lambda: _user_of(request))
            request.user = user


def bearer(request: HttpRequest) -> str | None:
    """Return the text after ``Bearer``; None where there is none."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def token_of(request: HttpRequest) -> ApiToken | None:
    """Return the row of the request's token if it is valid, read once."""
    stored: Any = getattr(request, "replview_token", _UNREAD)
    if stored is _UNREAD:
        text = bearer(request)
        stored = good_token(text) if text else None
        request.replview_token = stored  # type: ignore[attr-defined]
    row: ApiToken | None = stored
    return row


def _user_of(request: HttpRequest) -> User | AnonymousUser:
    row = token_of(request)
    return AnonymousUser() if row is None else row.user


class Token(HttpBearer):
    """The authentication by ``Authorization: Bearer rv_…``; see ``replview token create``."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        """Return the token's user, or None."""
        row = token_of(request)
        return None if row is None else row.user


def signed_in(request: HttpRequest) -> User | None:
    """Return the session's user. Every call only reads, so a forged request does no harm."""
    return request.user if request.user.is_authenticated else None


def metrics_refusal(request: HttpRequest) -> int | None:
    """Return the status that refuses ``/metrics``; None to allow it.

    Metrics cover every source, so they need a token of scope ``metrics``, or an admin.
    """
    if bearer(request) is not None:
        row = token_of(request)
        if row is None:
            return 401
        return None if may_read_metrics(row) else 403
    if not request.user.is_authenticated:
        return 401
    return None if role_of(request.user) is Role.ADMIN else 403
