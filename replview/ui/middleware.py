"""Headers of every answer, and the answer to a statement that took too long.

The Content-Security-Policy: everything from here, nothing inline, sockets to this host alone.

And, of every answer, static files among them: no guessing of types, no use by other sites, no
camera or other device, no address sent elsewhere, and no copy that the browser's *back* shows
after the sign-out (static files say for themselves how long they may be kept).
"""

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.template.loader import render_to_string
from django.utils.decorators import sync_and_async_middleware
from django.utils.deprecation import MiddlewareMixin

POLICY = (
    "default-src 'self'",
    "script-src 'self'",
    # Styles come from files; what is computed (a bar's length) is drawn as SVG.
    "style-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
)

#: Of every answer that does not say otherwise itself.
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), "
    "payment=(), usb=()",
}


def policy_for(request: HttpRequest) -> str:
    """The policy of one answer; older browsers do not count sockets among ``'self'``."""
    scheme = "wss" if request.is_secure() else "ws"
    try:
        sockets = f" {scheme}://{request.get_host()}"
    except DisallowedHost:
        sockets = ""
    return "; ".join([*POLICY, f"connect-src 'self'{sockets}"])


@sync_and_async_middleware
def ContentSecurityPolicyMiddleware(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the header to every answer that has none of its own."""
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            return _with_policy(request, await get_response(request))

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        return _with_policy(request, get_response(request))

    return answer


def _with_policy(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if "Content-Security-Policy" not in response.headers:
        response.headers["Content-Security-Policy"] = policy_for(request)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


_QUERY_CANCELED = "57014"


class SlowStatementMiddleware(MiddlewareMixin):
    """Answers 503, as a page or as JSON."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Only where the server itself ended a statement."""
        ended = isinstance(error, OperationalError)
        if not ended or getattr(error.__cause__, "sqlstate", "") != _QUERY_CANCELED:
            return None
        seconds = settings.WEB_STATEMENT_SECONDS
        if request.path.startswith("/api/"):
            message = f"the store did not answer within {seconds} s: ask for less at once"
            return JsonResponse({"detail": message}, status=503)
        # Without the request: what every page shows around would be asked of the store, too.
        return HttpResponse(render_to_string("503.html", {"seconds": seconds}), status=503)
