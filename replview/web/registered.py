"""Every source with the slots that replview receives, in one query."""

from django.db.models import F

from replview.store.models import Slot, Source

_SLOT = [field.attname for field in Slot._meta.concrete_fields]
_PREFIX = "of_slot_"


def read_registered() -> tuple[dict[int, Source], list[Slot]]:
    """Sources by their id, whether they have slots or not; and all slots, each with its source."""
    columns = {f"{_PREFIX}{name}": F(f"slots__{name}") for name in _SLOT}
    sources: dict[int, Source] = {}
    slots: list[Slot] = []
    for row in Source.objects.annotate(**columns).order_by("name", "slots__name"):
        values = [row.__dict__.pop(f"{_PREFIX}{name}") for name in _SLOT]
        source = sources.setdefault(row.pk, row)
        if values[0] is not None:
            slot = Slot.from_db(str(row._state.db), _SLOT, values)
            slot.source = source
            slots.append(slot)
    return sources, slots
