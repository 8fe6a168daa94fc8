"""What an address asks for: the parameters of its query, read in one way by every page."""

from django.db.models import F
from django.http import HttpRequest

from replview.store.models import Slot


def slot_asked_for(name: str) -> Slot | None:
    """The slot ``source/name``; without a name the one that was read last; None: there is none."""
    slots = Slot.objects.select_related("source", "incarnation")
    source, _, slot = name.rpartition("/")
    if name:
        return slots.filter(source__name=source, name=slot).first()
    return slots.order_by(F("heartbeat_at").desc(nulls_last=True), "id").first()


def scope_to(request: HttpRequest, slot: Slot | str) -> None:
    """Let the header's scope be this slot, whatever the address says."""
    given = request.GET.copy()
    given["slot"] = str(slot)
    request.GET = given  # type: ignore[assignment]


def number_asked_for(request: HttpRequest, word: str) -> int | None:
    """A whole number of the address's query; None: it has none of that name."""
    text = request.GET.get(word, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
