"""A request whose statement on the store was ended for taking too long: said as it is, not as 500.

Whatever somebody searches for, each statement ends after ``WEB_STATEMENT_SECONDS``.
"""

from django.conf import settings
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.utils.deprecation import MiddlewareMixin

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
            said = f"the store did not answer within {seconds} s: ask for less at once"
            return JsonResponse({"detail": said}, status=503)
        # Without the request: what every page shows around would be asked of the store, too.
        return HttpResponse(render_to_string("503.html", {"seconds": seconds}), status=503)
