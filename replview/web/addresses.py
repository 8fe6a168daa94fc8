"""Addresses that carry a scope."""

from urllib.parse import urlencode

from django.urls import reverse

from replview.store.models import Slot


def stream_url(slot: Slot) -> str:
    """The live page of one slot: ``/live/?slot=shop/replview``."""
    return f"{reverse('live')}?{urlencode({'slot': str(slot)}, safe='/')}"


def slot_page_url(slot: Slot) -> str:
    """The slot's own page: ``/slots/shop/replview/``."""
    return reverse("slot", args=[slot.source.name, slot.name])


def in_flight_url(slot: Slot) -> str:
    """What is in flight of one slot: ``/in-flight/?slot=shop/replview``."""
    return f"{reverse('in-flight')}?{urlencode({'slot': str(slot)}, safe='/')}"
