"""Addresses that carry a scope."""

from urllib.parse import urlencode

from django.urls import reverse

from replview.store.models import Slot


def stream_url(slot: Slot) -> str:
    """The live page of one slot: ``/live/?slot=shop/replview``."""
    return f"{reverse('live')}?{urlencode({'slot': str(slot)}, safe='/')}"
