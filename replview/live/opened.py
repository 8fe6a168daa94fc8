"""Who opens the live page is in the access record: once a minute, however often it reconnects."""

from typing import Any

from channels.auth import get_user
from channels.db import DatabaseSyncToAsync

from replview.store.models import Slot
from replview.store.write.access_record import Action, Via, Visit, first_look, note, use_visit


async def note_opened(scope: dict[str, Any], slot_id: int) -> None:
    """Somebody watches this slot from now on."""
    user = scope.get("user") or await get_user(scope)
    address = str((scope.get("client") or ("",))[0] or "")
    await _in_thread(user, address, slot_id)


def _note(user: Any, address: str, slot_id: int) -> None:
    slot = Slot.objects.select_related("source").filter(pk=slot_id).first()
    if slot is None or not first_look((Action.VIEWED_ROWS, user.pk, address, "live", slot_id)):
        return
    with use_visit(Visit(lambda: user, via=Via.SOCKET, address=address, page=lambda: "live")):
        note(Action.VIEWED_ROWS, subject=f"{slot}, live", source_id=slot.source_id)


_in_thread = DatabaseSyncToAsync(_note, thread_sensitive=False)
