"""What an address asks for: the parameters of its query, read in one way by every page."""

from django.db.models import F

from replview.store.models import Slot


def slot_asked_for(name: str) -> Slot | None:
    """The slot ``source/name``; without a name the one that was read last; None: there is none."""
    slots = Slot.objects.select_related("source", "incarnation")
    source, _, slot = name.rpartition("/")
    if name:
        return slots.filter(source__name=source, name=slot).first()
    return slots.order_by(F("heartbeat_at").desc(nulls_last=True), "id").first()
