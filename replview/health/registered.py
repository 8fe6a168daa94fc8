"""Every source with the slots that replview receives, in one query."""

from replview.store.models import Slot, Source

_SOURCE = [field.attname for field in Source._meta.concrete_fields]
_SOURCE_ID = _SOURCE.index("id")
_SLOT = [field.attname for field in Slot._meta.concrete_fields]
_OF_SLOT = [f"slots__{name}" for name in _SLOT]


def read_registered() -> tuple[dict[int, Source], list[Slot]]:
    """Sources by their id, whether they have slots or not; and all slots, each with its source."""
    rows = Source.objects.order_by("name", "slots__name")
    sources: dict[int, Source] = {}
    slots: list[Slot] = []
    for row in rows.values_list(*_SOURCE, *_OF_SLOT):
        told, values = row[: len(_SOURCE)], row[len(_SOURCE) :]
        # A source stands in the row of each of its slots.
        source = sources.get(told[_SOURCE_ID])
        if source is None:
            source = sources[told[_SOURCE_ID]] = Source.from_db(rows.db, _SOURCE, told)
        if values[0] is not None:
            slot = Slot.from_db(rows.db, _SLOT, values)
            slot.source = source
            slots.append(slot)
    return sources, slots
