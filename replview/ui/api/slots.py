"""The slots, and which of them a question is about."""

from datetime import datetime
from typing import Any

from django.db.models import F
from django.http import Http404, HttpRequest
from ninja import Router, Schema

from replview.access.page import VIEWER, page
from replview.store.models import Slot
from replview.ui.api.answers import BadRequest

router = Router(tags=["slots"])


class SlotOut(Schema):
    """A slot replview receives."""

    #: ``source/name``: how other calls name it.
    slot: str
    plugin: str
    interface: str
    publications: list[str]
    state: str
    #: What keeps it from being received; empty: nothing.
    problem: str
    remedy: str
    #: The number of its present life; positions compare only within one.
    incarnation: int | None
    #: The last place in that life's history.
    commit_seq: int | None
    #: Everything that ends at or before it is stored.
    checkpoint_lsn: str | None
    last_commit_time: datetime | None
    transactions_stored: int
    changes_stored: int


@page(role=VIEWER)
@router.get("/slots", response=list[SlotOut], summary="All slots")
def slots(request: HttpRequest) -> list[dict[str, Any]]:
    """Every slot replview receives, with how far it is stored."""
    found = Slot.objects.select_related("source", "incarnation")
    return [_facts(slot) for slot in found.order_by("source__name", "name")]


def _facts(slot: Slot) -> dict[str, Any]:
    life = slot.incarnation
    return {
        "slot": str(slot),
        "plugin": slot.plugin,
        "interface": slot.interface,
        "publications": slot.publications,
        "state": slot.state,
        "problem": slot.problem_cause,
        "remedy": slot.problem_remedy,
        "incarnation": None if life is None else life.number,
        "commit_seq": None if life is None else life.commit_seq,
        "checkpoint_lsn": None if slot.checkpoint_lsn is None else str(slot.checkpoint_lsn),
        "last_commit_time": slot.last_commit_time,
        "transactions_stored": slot.transactions_stored,
        "changes_stored": slot.changes_stored,
    }


def slot_named(name: str) -> Slot:
    """The slot ``source/name``; without a name the only one there is.

    Raises ``Http404`` for one that is not there, ``BadRequest`` where one must be named.
    """
    slots = Slot.objects.select_related("source", "incarnation")
    if name:
        source, _, slot_name = name.rpartition("/")
        found = slots.filter(source__name=source, name=slot_name).first()
        if found is None:
            raise Http404(f"there is no slot {name!r}: write source/name, see /api/v1/slots")
        return found
    some = list(slots.order_by(F("heartbeat_at").desc(nulls_last=True), "id")[:2])
    if not some:
        raise Http404("there is no slot yet: replview slot add SOURCE NAME")
    if len(some) > 1:
        raise BadRequest("there are several slots", "name one with slot=source/name")
    return some[0]
