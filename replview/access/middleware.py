"""What holds while a request is answered: what its user sees, and that it is a visit.

A visit says who asks, from where, for which page; what it showed is noted after.

Behind a proxy the web server itself puts the browser's address in place of the proxy's (uvicorn's
``--forwarded-allow-ips``): headers are not believed here.
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

#: A proxy's name for the request is taken over where it looks like one.
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_API = "/api/"


def within(context: Callable[[HttpRequest], AbstractContextManager[Any]]) -> Callable[..., Any]:
    """A middleware that answers a request within this context."""

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


#: Within a request only the sources its user sees are there.
SeenMiddleware = within(lambda request: only_of(lambda: visible_sources(_user_of(request))))
#: Within a request readers see what its user may see; after the one that tells the user.
VisibilityMiddleware = within(
    lambda request: use_visibility(visibility_of(lambda: _user_of(request)))
)


@sync_and_async_middleware
def AccessRecordMiddleware(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Opens a visit, and records the rows it showed once the answer is built."""
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
    given = request.headers.get("X-Request-ID", "")
    return Visit(
        lambda: _signed_in(request),
        via=Via.API if request.path_info.startswith(_API) else Via.PAGE,
        address=str(request.META.get("REMOTE_ADDR") or ""),
        request_id=given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex[:16],
        page=lambda: (request.resolver_match and request.resolver_match.view_name) or "",
    )


def _signed_in(request: HttpRequest) -> Visitor:
    user = _user_of(request)
    return user if user is not None and user.is_authenticated else None
