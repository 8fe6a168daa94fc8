"""A zero byte in a request: PostgreSQL has no text with one, so nothing is called so.

An address with one leads nowhere. Anywhere else nobody types one by hand: the request is not
understood, which is no failure of ours.
"""

from django.db import DataError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.utils.deprecation import MiddlewareMixin

_SAID = "what was sent holds a zero byte, and no text in the store does"


class ZeroBytesMiddleware(MiddlewareMixin):
    """Answers 404 and 400 instead of 500."""

    def process_request(self, request: HttpRequest) -> None:
        """Before anything is looked for by a word of the path."""
        if "\0" in request.path_info:
            raise Http404("there is no such address")

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Only where psycopg refused a text for it, which the store never saw."""
        if not isinstance(error, DataError) or "NUL (0x00)" not in str(error):
            return None
        if request.path_info.startswith("/api/"):
            return JsonResponse({"error": _SAID, "remedy": "leave it out"}, status=400)
        return HttpResponseBadRequest(_SAID, content_type="text/plain; charset=utf-8")
