"""The middlewares that set security headers and answer failures.

The Content-Security-Policy allows everything from this host, nothing inline, and sockets to this
host only. The other headers of every response, including static files, forbid type sniffing, use
by other sites, devices such as cameras, referrers to other sites, and a copy that the browser's
*back* could show after the sign-out (static files set their own cache time).
"""

import logging
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.core.exceptions import DisallowedHost, PermissionDenied, SuspiciousOperation
from django.db import DatabaseError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.template.loader import render_to_string
from django.utils.decorators import sync_and_async_middleware
from django.utils.deprecation import MiddlewareMixin

logger = logging.getLogger(__name__)

POLICY = (
    "default-src 'self'",
    "script-src 'self'",
    # Styles come from files. Computed sizes, such as a bar's length, are drawn as SVG.
    "style-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
)

#: Headers of every response that does not set them itself.
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), "
    "payment=(), usb=()",
}
_QUERY_CANCELED = "57014"


def policy_for(request: HttpRequest) -> str:
    """Return the policy of a response; older browsers need the sockets' address apart."""
    scheme = "wss" if request.is_secure() else "ws"
    try:
        sockets = f" {scheme}://{request.get_host()}"
    except DisallowedHost:
        sockets = ""
    return "; ".join([*POLICY, f"connect-src 'self'{sockets}"])


@sync_and_async_middleware
def ContentSecurityPolicyMiddleware(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Add the security headers to every response that does not set them itself."""
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


class SlowStatementMiddleware(MiddlewareMixin):
    """The middleware that answers 503, as page or JSON, where a statement took too long."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Return the answer where the server cancelled a statement, else None."""
        is_operational = isinstance(error, OperationalError)
        if not is_operational or getattr(error.__cause__, "sqlstate", "") != _QUERY_CANCELED:
            return None
        seconds = settings.WEB_STATEMENT_SECONDS
        if request.path.startswith("/api/"):
            message = f"the store did not answer within {seconds} s: narrow the request"
            return JsonResponse({"error": message, "remedy": ""}, status=503)
        # Render without the request, because the shell around each page queries the store, too.
        return HttpResponse(render_to_string("503.html", {"seconds": seconds}), status=503)


class ApiFailureMiddleware(MiddlewareMixin):
    """The middleware that answers API requests in JSON where replview or the store failed."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Return the answer to an unhandled error; refusals keep their own."""
        refused = isinstance(error, Http404 | PermissionDenied | SuspiciousOperation)
        if refused or not request.path.startswith("/api/"):
            return None
        if isinstance(error, DatabaseError):
            # The server's message may contain values.
            cause = type(error.__cause__ or error).__name__
            logger.error("%s: the store failed (%s)", request.path, cause)
            answer = {"error": "the store returned an error", "remedy": "try again"}
            return JsonResponse(answer, status=503)
        logger.error("%s failed", request.path, exc_info=error)
        failed = f"internal error in replview ({type(error).__name__})"
        remedy = "see the web server's log, and please report it"
        return JsonResponse({"error": failed, "remedy": remedy}, status=500)
