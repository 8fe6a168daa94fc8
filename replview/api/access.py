"""Who may read the API: a program with a token, or a browser that has signed in."""

from typing import Any

from django.http import HttpRequest
from ninja.security import HttpBearer

from replview.store.tokens import good_token


class Token(HttpBearer):
    """``Authorization: Bearer rv_…``; see ``replview token create``."""

    def authenticate(self, request: HttpRequest, token: str) -> Any | None:
        """The token's user, or None."""
        row = good_token(token)
        if row is None:
            return None
        request.user = row.user
        return row.user


def signed_in(request: HttpRequest) -> Any | None:
    """A browser's session: every call here reads, so no forged request can do harm."""
    return request.user if request.user.is_authenticated else None


def may_read(request: HttpRequest) -> bool:
    """Whether the request brings a good token or a session: for what is not part of ``/api/v1``."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return good_token(token.strip()) is not None
    return signed_in(request) is not None
