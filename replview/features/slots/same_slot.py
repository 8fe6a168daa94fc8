"""A slot that several sources lead to, for they are one server: its other names, and which of them
is alerted of.
"""

from dataclasses import dataclass

from django.urls import reverse
from django.utils import timezone

from replview.features.alerts.snapshot import Sight
from replview.store.models import Source, SourceLook, WatchedSlot
from replview.store.same_server import one_a_slot, server_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SameSlot:
    """One slot under several names."""

    #: (``source/slot``, address), but the one that was asked for.
    others: list[tuple[str, str]]
    #: Which of them alerts name.
    alerted: str
    #: Whether that is the one that was asked for.
    here: bool


def same_slot(source: Source, name: str) -> SameSlot | None:
    """None: no other source is known to lead to it."""
    if source.system_identifier in (None, "", "unknown"):
        return None
    rows = list(
        WatchedSlot.objects.filter(
            name=name, source__system_identifier=source.system_identifier, gone_at=None
        ).select_related("source", "slot")
    )
    if len(rows) < 2:
        return None
    looks = {
        look.source_id: look
        for look in SourceLook.objects.filter(source__in=[row.source_id for row in rows])
    }
    server = server_of(source, looks)
    same = [row for row in rows if server is not None and server_of(row.source, looks) == server]
    if len(same) < 2:
        return None
    sight = Sight(timezone.now())
    [first], _ = one_a_slot(same, looks, lambda row: sight.fresh(row.last_seen_at))
    return SameSlot(
        others=[
            (str(row), reverse("slot", args=[row.source.name, row.name]))
            for row in same
            if row.source_id != source.pk
        ],
        alerted=str(first),
        here=first.source_id == source.pk,
    )
