"""Who may go on: every request is held against what ``@page`` says of its view, before that runs.

A view without it is refused. Anonymous visitors are sent to the login (a program gets
401), and somebody without the role gets the page that says who could give it.
"""

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.utils.decorators import sync_and_async_middleware
from django.utils.deprecation import MiddlewareMixin

from replview.access.page import EVERYONE, SAFE_METHODS, SIGNED_IN, Page, page_of
from replview.access.permitted import NeedsRole
from replview.access.rights import Role, role_of, visible_sources
from replview.store.models import ApiToken
from replview.store.models.seen import only_of, seen_sources

_NO_TOKEN = {
    "error": "no token, or one that is unknown, revoked or expired",
    "remedy": "send 'Authorization: Bearer rv_…' with a token of 'replview token create NAME'",
}


@sync_and_async_middleware
def SeenMiddleware(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Within a request only the sources its user sees are there."""
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            with only_of(lambda: visible_sources(getattr(request, "user", None))):
                response: HttpResponseBase = await get_response(request)
            return response

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        with only_of(lambda: visible_sources(getattr(request, "user", None))):
            response: HttpResponseBase = get_response(request)
        return response

    return answer


class AllowedMiddleware(MiddlewareMixin):
    """Refuses by what ``@page`` says of the view."""

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]
    ) -> HttpResponseBase | None:
        """None: go on."""
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
        _check(request, page, method)
        if kwargs and seen_sources() is not None:
            page.check_words(kwargs)
        return None


def _check(request: HttpRequest, page: Page, method: str) -> None:
    """Raises ``NeedsRole``."""
    token: ApiToken | None = getattr(request, "replview_token", None)
    if token is not None and not _within_scope(token.scope, page, method):
        raise NeedsRole(None, f"a token of scope {token.scope} is not good for this")
    needed = page.role_for(method)
    if needed == SIGNED_IN:
        return
    has = role_of(request.user)
    if has is None:
        raise NeedsRole(None)
    if not isinstance(needed, Role) or has < needed:
        raise NeedsRole(needed if isinstance(needed, Role) else Role.ADMIN)


def _within_scope(scope: str, page: Page, method: str) -> bool:
    """Whether a token of this scope is good for this act, whatever its user may."""
    match ApiToken.Scope(scope):
        case ApiToken.Scope.METRICS:
            return False
        case ApiToken.Scope.OPERATE:
            return True
        case ApiToken.Scope.EXPORT:
            return method in SAFE_METHODS or page.exports
        case _:
            return method in SAFE_METHODS
