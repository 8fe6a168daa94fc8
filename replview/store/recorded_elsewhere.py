"""Slots of replview's that another source leads to as well, for both are one running server: on
either they are replview's own, and nobody adopts or drops them as somebody else's.
"""

from replview.store.models import Slot, Source, SourceLook
from replview.store.models.seen import only_of, seen_sources
from replview.store.same_server import server_of


def recorded_elsewhere(source: Source) -> dict[str, Slot]:
    """By name; empty where nothing tells that another source is the same server.

    Also of sources that whoever asks does not see: what of them may be told is ``is_seen``.
    """
    with only_of(lambda: None):
        return _recorded_elsewhere(source)


def is_seen(slot: Slot) -> bool:
    """Whether whoever asks may know of it."""
    seen = seen_sources()
    return seen is None or slot.source_id in seen


def _recorded_elsewhere(source: Source) -> dict[str, Slot]:
    if source.system_identifier in (None, "", "unknown"):
        return {}
    others = Source.objects.filter(system_identifier=source.system_identifier)
    slots = list(
        Slot.objects.filter(source__in=others.exclude(pk=source.pk), temporary=False)
        .exclude(desired=Slot.Desired.REMOVING)
        .select_related("source")
    )
    if not slots:
        return {}
    asked = [source.pk, *{slot.source_id for slot in slots}]
    looks = {look.source_id: look for look in SourceLook.objects.filter(source__in=asked)}
    server = server_of(source, looks)
    if server is None:
        return {}
    return {slot.name: slot for slot in slots if server_of(slot.source, looks) == server}
