"""The middlewares that set, for each request, its visibility and its visit.

A visit records who asks, from where and for which page; the rows shown are recorded after.

Headers are not trusted here. Behind a proxy the web server itself replaces the proxy's address
by the browser's (uvicorn's ``--forwarded-allow-ips``).
"""

import re
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from replview.access.rights import Visitor, visible_sources
from replview.access.visibility import use_visibility, visibility_of
from replview.store.models.seen import only_of
from replview.store.write.access_record import Via, Visit, settle, use_visit

#: The form of a proxy's ``X-Request-ID`` that is accepted; any other is replaced.
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_API_PATH = "/api/"


def within(context: Callable[[HttpRequest], AbstractContextManager[Any]]) -> Callable[..., Any]:
    """Return a middleware that answers a request within this context."""

    @sync_and_async_middleware
    def middleware(get_response: Callable[..., Any]) -> Callable[..., Any]:
        if iscoroutinefunction(get_response):

            async def answer_later(request: HttpRequest) -> HttpResponseBase:
                with context(request):
                    response: HttpResponseBase = await get_response(request)
                return response

            return answer_later

        def answer(request: HttpRequest) -> HttpResponseBase:
            with context(request):
                response: HttpResponseBase = get_response(request)
            return response

        return answer

    return middleware


def _user_of(request: HttpRequest) -> Visitor:
    return getattr(request, "user", None)


#: Limits a request to the sources that its user may see.
SeenMiddleware = within(lambda request: only_of(lambda: visible_sources(_user_of(request))))
#: Limits readers to the rows its user may see; it comes after the middleware that sets the user.
VisibilityMiddleware = within(
    lambda request: use_visibility(visibility_of(lambda: _user_of(request)))
)


@sync_and_async_middleware
def AccessRecordMiddleware(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Open a visit, and record the rows that it showed once the response is complete."""
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            with use_visit(visit_of(request)) as visit:
                response: HttpResponseBase = await get_response(request)
                if visit.shown is not None and response.status_code < 400:
                    await sync_to_async(settle)(visit)
                return response

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        with use_visit(visit_of(request)) as visit:
            response: HttpResponseBase = get_response(request)
            if visit.shown is not None and response.status_code < 400:
                settle(visit)
            return response

    return answer


def visit_of(request: HttpRequest) -> Visit:
    """Return the visit of a request, with a request id of the proxy or a new one."""
    sent_id = request.headers.get("X-Request-ID", "")
    return Visit(
        lambda: _signed_in_user(request),
        via=Via.API if request.path_info.startswith(_API_PATH) else Via.PAGE,
        address=str(request.META.get("REMOTE_ADDR") or ""),
        request_id=sent_id if _REQUEST_ID.fullmatch(sent_id) else uuid.uuid4().hex[:16],
        page=lambda: (request.resolver_match and request.resolver_match.view_name) or "",
    )


def _signed_in_user(request: HttpRequest) -> Visitor:
    user = _user_of(request)
    return user if user is not None and user.is_authenticated else None
