"""Read the parameters of an address or a form, in the same way on every page."""

from collections.abc import Container, Mapping
from datetime import datetime, timedelta

from django.db import DataError
from django.db.models import F
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.utils.deprecation import MiddlewareMixin

from decoder.scalars import LSN
from replview.store.models import Slot
from replview.store.read.transactions.filter_values import read_lsn, read_time
from replview.text.parsing import clean_text, whole_number

#: Word in the address → the page's name for the range, and its length; None for everything.
RANGES: dict[str, tuple[str, timedelta | None]] = {
    "1h": ("1 h", timedelta(hours=1)),
    "24h": ("24 h", timedelta(hours=24)),
    "7d": ("7 d", timedelta(days=7)),
    "30d": ("30 d", timedelta(days=30)),
    "all": ("all", None),
}
_ZERO_BYTE = "the request contains a zero byte, which the store cannot hold"


def slot_asked_for(name: str) -> Slot | None:
    """Return the slot ``source/name``; without a name the last active one; None without slots."""
    slots = Slot.objects.select_related("source", "incarnation")
    source, _, slot = name.rpartition("/")
    if name:
        return slots.filter(source__name=source, name=slot).first()
    return slots.order_by(F("heartbeat_at").desc(nulls_last=True), "id").first()


def slot_named(name: str) -> Slot | None:
    """Return the slot as ``slot_asked_for`` does. Raises ``Http404`` for an unknown name."""
    slot = slot_asked_for(name)
    if slot is None and name:
        raise Http404(f"there is no slot {name!r}")
    return slot


def slot_of(request: HttpRequest) -> Slot | None:
    """Return the slot in the address, or else the last active one, as the header's scope.

    None where there is no slot. Raises ``Http404`` for an unknown name.
    """
    name = request.GET.get("slot", "")
    slot = slot_named(name)
    if slot is not None and not name:
        scope_to(request, slot)
    return slot


def scope_to(request: HttpRequest, slot: Slot | str) -> None:
    """Make this slot the header's scope, whatever the address says."""
    query = request.GET.copy()
    query["slot"] = str(slot)
    request.GET = query  # type: ignore[assignment]


class Params:
    """The parameters of an address or a form; an invalid one counts as missing."""

    def __init__(self, words: Mapping[str, object]) -> None:
        self._words = words

    def text(self, name: str, most: int | None = 200, *, strip: bool = True) -> str:
        """Return a text, cut to ``most`` characters."""
        return clean_text(self._words.get(name), most, strip=strip)

    def number(self, name: str, *, digits: int = 18) -> int | None:
        """Return a whole number; None where there is none."""
        return whole_number(self._words.get(name), digits=digits)

    def choice(self, name: str, among: Container[str], default: str = "") -> str:
        """Return the parameter if it is one of ``among``, else the default."""
        word = str(self._words.get(name, ""))
        return word if word in among else default

    def letters(self, name: str, among: str) -> str:
        """Return the given letters of ``among`` in its order; all of them mean the same as none."""
        text = str(self._words.get(name) or "").upper()
        letters = "".join(letter for letter in among if letter in text)
        return "" if letters == among else letters

    def flag(self, name: str, word: str = "on") -> bool:
        """Return whether the parameter has this value."""
        return self._words.get(name) == word

    def lsn(self, name: str) -> LSN | None:
        """Return a WAL position; None where there is none."""
        return read_lsn(self.text(name))

    def moment(self, name: str) -> datetime | None:
        """Return the time of an ISO time (UTC without a zone) or of an age like ``2h``."""
        return read_time(self.text(name))


class ZeroBytesMiddleware(MiddlewareMixin):
    """The middleware that answers 404 or 400 to a zero byte, instead of failing.

    No text in PostgreSQL contains one, so no address with one exists. Elsewhere a zero byte is not
    typed by hand, and a request is refused where ``Params`` did not remove it.
    """

    def process_request(self, request: HttpRequest) -> None:
        """Raise ``Http404`` before any part of the path is looked up."""
        if "\0" in request.path_info:
            raise Http404("there is nothing at this address")

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Return the answer where psycopg refused a text with a zero byte, else None."""
        if not isinstance(error, DataError) or "NUL (0x00)" not in str(error):
            return None
        if request.path_info.startswith("/api/"):
            return JsonResponse({"error": _ZERO_BYTE, "remedy": "leave it out"}, status=400)
        return HttpResponseBadRequest(_ZERO_BYTE, content_type="text/plain; charset=utf-8")
