"""What an address or a form asks for: its parameters, read in one way by every page."""

from collections.abc import Container, Mapping
from datetime import datetime, timedelta

from django.db import DataError
from django.db.models import F
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.utils.deprecation import MiddlewareMixin

from decoder.scalars import LSN
from replview.store.models import Slot
from replview.store.read.transactions.transaction_filter import read_time
from replview.text.parsing import clean_text, whole_number

#: Word in the address → what the page calls it, and how far back; None: all there is.
RANGES: dict[str, tuple[str, timedelta | None]] = {
    "1h": ("1 h", timedelta(hours=1)),
    "24h": ("24 h", timedelta(hours=24)),
    "7d": ("7 d", timedelta(days=7)),
    "30d": ("30 d", timedelta(days=30)),
    "all": ("all", None),
}
_ZERO_BYTE = "what was sent holds a zero byte, and no text in the store does"


def slot_asked_for(name: str) -> Slot | None:
    """The slot ``source/name``; without a name the one that was read last; None: there is none."""
    slots = Slot.objects.select_related("source", "incarnation")
    source, _, slot = name.rpartition("/")
    if name:
        return slots.filter(source__name=source, name=slot).first()
    return slots.order_by(F("heartbeat_at").desc(nulls_last=True), "id").first()


def slot_of(request: HttpRequest) -> Slot | None:
    """The slot that the address names, or the one that was read last, which becomes the header's
    scope; None: there is none at all. Raises ``Http404`` for a name that no slot has.
    """
    name = request.GET.get("slot", "")
    slot = slot_asked_for(name)
    if slot is None and name:
        raise Http404(f"there is no slot {name!r}")
    if slot is not None and not name:
        scope_to(request, slot)
    return slot


def scope_to(request: HttpRequest, slot: Slot | str) -> None:
    """Let the header's scope be this slot, whatever the address says."""
    given = request.GET.copy()
    given["slot"] = str(slot)
    request.GET = given  # type: ignore[assignment]


class Params:
    """The words of an address or of a form; what cannot be meant is as if it were not given."""

    def __init__(self, words: Mapping[str, object]) -> None:
        self._words = words

    def text(self, name: str, most: int | None = 200, *, strip: bool = True) -> str:
        """A text, cut where it is longer."""
        return clean_text(self._words.get(name), most, strip=strip)

    def number(self, name: str, *, digits: int = 18) -> int | None:
        """A whole number; None: there is none."""
        return whole_number(self._words.get(name), digits=digits)

    def choice(self, name: str, among: Container[str], default: str = "") -> str:
        word = str(self._words.get(name, ""))
        return word if word in among else default

    def letters(self, name: str, among: str) -> str:
        """Those of these letters that are given, in this order; all of them are as none."""
        given = str(self._words.get(name) or "").upper()
        found = "".join(letter for letter in among if letter in given)
        return "" if found == among else found

    def flag(self, name: str, word: str = "on") -> bool:
        return self._words.get(name) == word

    def lsn(self, name: str) -> LSN | None:
        try:
            return LSN.parse(self.text(name))
        except ValueError:
            return None

    def moment(self, name: str) -> datetime | None:
        """An ISO time (without a zone: UTC), or an age like ``2h``."""
        return read_time(self.text(name))


class ZeroBytesMiddleware(MiddlewareMixin):
    """Answers 404 and 400 where a zero byte would be a failure of ours.

    PostgreSQL has no text with one, so nothing is called so: an address with one leads nowhere.
    Anywhere else nobody types one by hand, and a request that ``Params`` did not read is refused.
    """

    def process_request(self, request: HttpRequest) -> None:
        """Before anything is looked for by a word of the path."""
        if "\0" in request.path_info:
            raise Http404("there is no such address")

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Only where psycopg refused a text for it, which the store never saw."""
        if not isinstance(error, DataError) or "NUL (0x00)" not in str(error):
            return None
        if request.path_info.startswith("/api/"):
            return JsonResponse({"error": _ZERO_BYTE, "remedy": "leave it out"}, status=400)
        return HttpResponseBadRequest(_ZERO_BYTE, content_type="text/plain; charset=utf-8")
