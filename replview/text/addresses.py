"""This module builds the addresses of pages that show one slot, table, row or actor."""

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlencode

from django.urls import reverse

from replview.text.parsing import table_text


class AddressedSlot(Protocol):
    """The slot that an address names; its ``str()`` is ``source/name``."""

    #: The slot's name on its server.
    name: str
    #: The source, an object with a ``name``.
    source: Any


def stream_url(slot: AddressedSlot) -> str:
    """Return the live page of one slot: ``/live/?slot=shop/replview``."""
    return f"{reverse('live')}?{urlencode({'slot': str(slot)}, safe='/')}"


def slot_page_url(slot: AddressedSlot) -> str:
    """Return the slot's own page: ``/slots/shop/replview/``."""
    return reverse("slot", args=[slot.source.name, slot.name])


def in_flight_url(slot: AddressedSlot) -> str:
    """Return the page of a slot's open transactions: ``/in-flight/?slot=shop/replview``."""
    return f"{reverse('in-flight')}?{urlencode({'slot': str(slot)}, safe='/')}"


def of_slot(page: str, slot: AddressedSlot) -> str:
    """Return a page of the record for this slot: ``/actors/?slot=shop/replview``."""
    return _scoped(page, slot, {})


def transactions_url(slot: AddressedSlot | str, **filters: str) -> str:
    """Return a slot's transactions: ``/transactions/?slot=shop/replview&actor=alice``."""
    return _scoped("transactions", slot, filters)


def find_url(slot: AddressedSlot | str, **filters: str) -> str:
    """Return a search by value: ``/find/?slot=shop/replview&table=public.orders``."""
    return _scoped("find", slot, filters)


def row_url(
    slot: AddressedSlot | str, schema: str, table: str, key: Mapping[str, str | None], **params: str
) -> str:
    """Return a row's history: ``/rows/?slot=shop/replview&table=public.orders&key.id=42``."""
    parts = {f"key.{name}": "" if value is None else value for name, value in key.items()}
    return _scoped("row-history", slot, {"table": table_text(schema, table), **parts, **params})


def relation_url(relation_id: int, **params: str) -> str:
    """Return a table's schema history: ``/relations/12/?from=4&to=5``."""
    query = urlencode(params)
    return f"{reverse('relation', args=[relation_id])}{'?' if query else ''}{query}"


def actor_url(slot: AddressedSlot | str, actor: str) -> str:
    """Return an actor's changes: ``/actor/?slot=shop/replview&actor=alice``; empty: unknown."""
    return _scoped("actor", slot, {"actor": actor})


def _scoped(name: str, slot: AddressedSlot | str, params: Mapping[str, str]) -> str:
    return f"{reverse(name)}?{urlencode({'slot': str(slot), **params}, safe='/')}"
