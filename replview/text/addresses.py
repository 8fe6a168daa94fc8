"""Addresses that carry a scope."""

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlencode

from django.urls import reverse

from replview.text.parsing import table_text


class Slot(Protocol):
    """What an address names of a slot; as text it is ``source/name``."""

    #: On its server.
    name: str
    #: The source, which has a name.
    source: Any


def stream_url(slot: Slot) -> str:
    """The live page of one slot: ``/live/?slot=shop/replview``."""
    return f"{reverse('live')}?{urlencode({'slot': str(slot)}, safe='/')}"


def slot_page_url(slot: Slot) -> str:
    """The slot's own page: ``/slots/shop/replview/``."""
    return reverse("slot", args=[slot.source.name, slot.name])


def in_flight_url(slot: Slot) -> str:
    """What is in flight of one slot: ``/in-flight/?slot=shop/replview``."""
    return f"{reverse('in-flight')}?{urlencode({'slot': str(slot)}, safe='/')}"


def of_slot(page: str, slot: Slot) -> str:
    """A page of the record, of this slot: ``/actors/?slot=shop/replview``."""
    return _scoped(page, slot, {})


def transactions_url(slot: Slot | str, **filters: str) -> str:
    """All transactions of a slot, filtered: ``/transactions/?slot=shop/replview&actor=alice``."""
    return _scoped("transactions", slot, filters)


def find_url(slot: Slot | str, **filters: str) -> str:
    """A search by value: ``/find/?slot=shop/replview&table=public.orders``."""
    return _scoped("find", slot, filters)


def row_url(
    slot: Slot | str, schema: str, table: str, key: Mapping[str, str | None], **more: str
) -> str:
    """One row's history: ``/rows/?slot=shop/replview&table=public.orders&key.id=42``."""
    parts = {f"key.{name}": "" if value is None else value for name, value in key.items()}
    return _scoped("row-history", slot, {"table": table_text(schema, table), **parts, **more})


def relation_url(relation_id: int, **more: str) -> str:
    """A table's schema history: ``/relations/12/?from=4&to=5``."""
    query = urlencode(more)
    return f"{reverse('relation', args=[relation_id])}{'?' if query else ''}{query}"


def actor_url(slot: Slot | str, actor: str) -> str:
    """What somebody changed: ``/actor/?slot=shop/replview&actor=alice``; empty: unknown."""
    return _scoped("actor", slot, {"actor": actor})


def _scoped(name: str, slot: Slot | str, more: Mapping[str, str]) -> str:
    return f"{reverse(name)}?{urlencode({'slot': str(slot), **more}, safe='/')}"
