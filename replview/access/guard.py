"""Check each request against the ``@page`` of its view before the view runs.

A view without ``@page`` is refused. Anonymous visitors are redirected to the login (a program gets
401), and an account without the role gets a page that names admins who could give it.
"""

from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

from replview.access.page import EVERYONE, SAFE_METHODS, SIGNED_IN, Page, page_of
from replview.access.rights import Role, admins, role_of, sees_source
from replview.access.shares import takes_share
from replview.access.visibility import current_visibility
from replview.store.models import ApiToken, Source
from replview.store.models.seen import seen_sources

#: Most admins that the page names.
_MOST_NAMED_ADMINS = 5
_NO_TOKEN = {
    "error": "no token, or one that is unknown, revoked or expired",
    "remedy": "send 'Authorization: Bearer rv_…' with a token of 'replview token create NAME'",
}
_TOO_MANY_REQUESTS = {
    "error": "this account has too many requests under way",
    "remedy": "wait until some of them have been answered",
}


class NeedsRole(PermissionDenied):
    """The account lacks a role; ``role`` is None where the account has no role at all."""

    def __init__(self, role: Role | None, why: str = "") -> None:
        super().__init__(why or (f"this needs the role {role.word}" if role else "no role"))
        self.role, self.why = role, why


def require(request: HttpRequest, role: Role, source: Source | int | None = None) -> None:
    """Require the role and, where a source is named, a grant on it.

    Raises ``Http404`` for a source that this account does not see, and else ``NeedsRole``.
    """
    if source is not None:
        source_id = source if isinstance(source, int) else source.pk
        if not sees_source(request.user, source_id):
            raise Http404("there is no such source")
    user_role = role_of(request.user)
    if user_role is None or user_role < role:
        raise NeedsRole(role if user_role is not None else None)


def has_all_tables(request: HttpRequest, source: Source) -> bool:
    """Return whether the account may see every table of the source, or is an admin."""
    return role_of(request.user) == Role.ADMIN or not current_visibility().hides_messages(source.pk)


def require_all_tables(request: HttpRequest, source: Source) -> None:
    """Require a right on every table of the source, or the role of an admin.

    The caller changes everything that is recorded or published of the source. Raises ``NeedsRole``.
    """
    if not has_all_tables(request, source):
        why = "This also affects tables that you have no right on, so only an admin may do it."
        raise NeedsRole(Role.ADMIN, why)


def forbidden(request: HttpRequest, exception: object = None) -> HttpResponse:
    """Answer a refusal with the role needed, the account's role, and who can give one."""
    role = getattr(exception, "role", None)
    why = getattr(exception, "why", "")
    user_role = role_of(getattr(request, "user", None))
    if request.path_info.startswith("/api/"):
        return JsonResponse(_refusal_json(role, user_role, why), status=403)
    page = {
        "needed": role.word if role else "",
        "has": user_role.word if user_role else "",
        "why": why,
        "admins": list(admins().values_list("username", flat=True)[: _MOST_NAMED_ADMINS + 1]),
        "named": _MOST_NAMED_ADMINS,
    }
    return render(request, "accounts/refused.html", page, status=403)


def _refusal_json(role: Role | None, user_role: Role | None, why: str) -> dict[str, str]:
    error = why or (f"this needs the role {role.word}" if role else "this is not allowed")
    if not why and role is not None and user_role is not None:
        error += f"; yours is {user_role.word}"
    if user_role is None:
        error = "this account has no role"
    return {"error": error, "remedy": "ask an admin of this replview"}


class AllowedMiddleware(MiddlewareMixin):
    """The middleware that refuses a request by the ``@page`` of its view."""

    def process_view(
        self, request: HttpRequest, view: object, args: object, kwargs: dict[str, Any]
    ) -> HttpResponseBase | None:
        """Return the refusal, or None to go on."""
        match = request.resolver_match
        name = match.view_name if match else ""
        method = request.method or "GET"
        page = page_of(view, method)
        if page is not None and page.role == EVERYONE:
            return None
        if not request.user.is_authenticated:
            if name.startswith("api:") and name != "api:openapi-view":
                return JsonResponse(_NO_TOKEN, status=401)
            return redirect_to_login(request.get_full_path())
        if page is None:
            raise NeedsRole(None, "Nobody may open this address: its page says no role.")
        if not takes_share(getattr(request, "scope", {}), request.user.pk):
            return JsonResponse(_TOO_MANY_REQUESTS, status=429, headers={"Retry-After": "2"})
        _check(request, page, method)
        if kwargs and seen_sources() is not None:
            page.check_words(kwargs)
        return None


def _check(request: HttpRequest, page: Page, method: str) -> None:
    """Raise ``NeedsRole`` where the account's role or the token's scope is too low."""
    token: ApiToken | None = getattr(request, "replview_token", None)
    if token is not None and not _within_scope(token.scope, page, method):
        raise NeedsRole(None, f"a token of scope {token.scope} does not allow this")
    needed_role = page.role_for(method)
    if needed_role == SIGNED_IN:
        return
    user_role = role_of(request.user)
    if user_role is None:
        raise NeedsRole(None)
    if not isinstance(needed_role, Role) or user_role < needed_role:
        raise NeedsRole(needed_role if isinstance(needed_role, Role) else Role.ADMIN)


def _within_scope(scope: str, page: Page, method: str) -> bool:
    """Return whether a token of this scope allows this request, whatever the role of its user."""
    match ApiToken.Scope(scope):
        case ApiToken.Scope.METRICS:
            return False
        case ApiToken.Scope.OPERATE:
            return True
        case ApiToken.Scope.EXPORT:
            return method in SAFE_METHODS or page.exports
        case _:
            return method in SAFE_METHODS
