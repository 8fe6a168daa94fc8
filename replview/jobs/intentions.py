"""An intention records what is about to be made on a source, until the store has the slot."""

import datetime as dt

from django.utils import timezone

from decoder.scalars import LSN
from replview.store.dsn import address_of, full_conninfo
from replview.store.models import Slot, SlotIntention, Source, SourceDraft

#: Seconds without a statement after which the maker may be dead.
QUIET_SECONDS = 30.0
#: Pauses between two tries of a sweep: in the first ten minutes, and later.
_FIRST_PAUSE, _LATER_PAUSE = dt.timedelta(seconds=15), dt.timedelta(minutes=5)
_TEN_MINUTES = dt.timedelta(minutes=10)
_IN_PROGRESS = [SourceDraft.State.WAITING, SourceDraft.State.RUNNING]


class Swept(Exception):
    """The objects made so far were undone, because their maker was taken for dead."""


def begin(
    source: Source, slot_name: str, after: LSN | None, draft: SourceDraft | None = None
) -> SlotIntention:
    """Store an intention; it holds the address only where the source is not in the store."""
    is_stored = source.pk is not None
    address = {} if is_stored else address_of(source)
    return SlotIntention.objects.create(
        source=source if is_stored else None,
        draft=draft,
        source_name=source.name,
        slot_name=slot_name,
        after_lsn=after,
        **address,
    )


def add(intention: SlotIntention, kind: str, name: str, create: str, undo: str) -> None:
    """Record a statement before it runs. Raises ``Swept``."""
    statement = {"kind": kind, "name": name, "create": create, "undo": undo}
    intention.begun = [*intention.begun, statement]
    intentions = SlotIntention.objects.filter(pk=intention.pk, swept_at=None)
    if not intentions.update(begun=intention.begun, begun_at=timezone.now(), seen_at=None):
        raise Swept


def take_out(intention: SlotIntention, undo: str) -> None:
    """Remove a statement that failed or was undone."""
    intention.begun = [statement for statement in intention.begun if statement["undo"] != undo]
    SlotIntention.objects.filter(pk=intention.pk).update(begun=intention.begun)


def fulfil(intention: SlotIntention) -> None:
    """Delete the intention in the transaction that stores the slot. Raises ``Swept``."""
    if not SlotIntention.objects.filter(pk=intention.pk, swept_at=None).delete()[0]:
        raise Swept


def forget(intention: SlotIntention) -> None:
    """Delete the intention, because nothing is left on the source."""
    SlotIntention.objects.filter(pk=intention.pk).delete()


def claim(intention: SlotIntention) -> bool:
    """Mark it as swept, so that its maker cannot continue; False if it has ended meanwhile."""
    intentions = SlotIntention.objects.filter(pk=intention.pk)
    return intentions.update(swept_at=timezone.now()) == 1


def saw(intention: SlotIntention) -> bool:
    """Note a slot that nobody reads or makes; return whether it has been so long enough."""
    now = timezone.now()
    if intention.seen_at is None:
        SlotIntention.objects.filter(pk=intention.pk).update(seen_at=now)
        return False
    return (now - intention.seen_at).total_seconds() >= QUIET_SECONDS


def due() -> list[SlotIntention]:
    """Return the intentions to sweep now, marked as tried; skip drafts in progress."""
    now, due_now = timezone.now(), []
    quiet_since = now - dt.timedelta(seconds=QUIET_SECONDS)
    rows = SlotIntention.objects.select_related("source", "draft")
    for intention in rows.exclude(draft__state__in=_IN_PROGRESS):
        newer = SlotIntention.objects.filter(pk__gt=intention.pk, slot_name=intention.slot_name)
        if newer.filter(source_name=intention.source_name).exists():
            # A newer attempt exists, and owns what is there now.
            continue
        # The maker of a draft that has ended is gone, so only a command needs the wait.
        if (
            intention.draft_id is None
            and intention.begun_at > quiet_since
            and intention.swept_at is None
        ):
            continue
        pause = _FIRST_PAUSE if now - intention.begun_at < _TEN_MINUTES else _LATER_PAUSE
        if intention.tried_at is None or now - intention.tried_at >= pause:
            SlotIntention.objects.filter(pk=intention.pk).update(tried_at=now)
            due_now.append(intention)
    return due_now


def of_draft(draft: SourceDraft) -> list[SlotIntention]:
    """Return the intentions of a draft, newest first."""
    rows = SlotIntention.objects.select_related("source", "draft")
    return list(rows.filter(draft=draft).order_by("-pk"))


def left_on(source: Source) -> tuple[list[str], list[str]]:
    """Return the unfinished slots on a source, and the statements that undo them."""
    rows = [row for row in SlotIntention.objects.filter(source=source).order_by("pk") if row.begun]
    undo_statements = [
        statement["undo"] for row in reversed(rows) for statement in reversed(row.begun)
    ]
    return [row.slot_name for row in rows], undo_statements


def anything_left() -> bool:
    """Return whether there is any intention."""
    return SlotIntention.objects.exists()


def conninfo_of(intention: SlotIntention) -> str:
    """Return the conninfo, never to be shown. Raises ``DSNError`` or ``SecretKeyChanged``."""
    return full_conninfo(intention.source or intention)


def taken_into_store(
    intention: SlotIntention, system_identifier: str | None
) -> tuple[bool, set[str]]:
    """Return whether the store has this slot, and the publications that the store's slots read.

    Slots of other servers are skipped, as far as the server is known.
    """
    is_stored, read = False, set()
    for slot in Slot.objects.select_related("source").filter(temporary=False):
        identifier = slot.source.system_identifier
        elsewhere = identifier not in (None, "", "unknown", system_identifier) and system_identifier
        if elsewhere and slot.source_id != intention.source_id:
            continue
        is_stored = is_stored or slot.name == intention.slot_name
        read |= set(slot.publications)
    return is_stored, read
