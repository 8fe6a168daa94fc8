"""A draft is a source that a user is about to add, entered in steps and carried out by one worker.

Its state is ``open`` while it is entered; after the user's agreement it is a job like any other. A
draft is visible to its user only. Its password is sealed like a source's, and is deleted with the
draft: when it is cancelled, when it is done, or a day after its user last touched it.

``answers`` holds ``name``; ``form`` (the address as typed, without the password); ``check``;
``through``, ``publications``, ``tables``; ``columns`` (``{"schema.table": {column: "mask" |
"drop"}}``); ``options``; ``statements`` (shown when the user agreed).
"""

import datetime as dt
import secrets
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q
from django.utils import timezone

from replview.jobs.rows import JobRows
from replview.store.dsn import ADDRESS, address_of, full_conninfo
from replview.store.models import Slot, Source, SourceDraft

#: Time after the user's last action until the draft expires.
KEPT = dt.timedelta(hours=24)
State = SourceDraft.State
#: States in which the user may change the draft.
CHANGEABLE = (State.OPEN, State.FAILED)

rows = JobRows(
    SourceDraft, task="replview.serve_drafts", lost_seconds=30.0, beside=("user", "source", "slot")
)


def watch_name() -> str:
    """Return a unique slot name, because several watches may use one source."""
    return f"replview_watch_{secrets.token_hex(4)}"


def begin_for(user: User, source: Source) -> SourceDraft:
    """Begin a draft of a slot on a stored source, whose address is not copied."""
    return SourceDraft.objects.create(
        user=user, kind=SourceDraft.Kind.RECORD, source=source, answers={"name": source.name}
    )


def conninfo_of(draft: SourceDraft) -> str:
    """Return the conninfo, never to be shown. Raises ``DSNError`` or ``SecretKeyChanged``."""
    return full_conninfo(draft.source or draft)


def source_for(draft: SourceDraft) -> Source:
    """Return an unsaved source with the draft's name and address."""
    return Source(name=draft.answers.get("name", ""), **address_of(draft))


def find(user: User, draft_id: int) -> SourceDraft | None:
    """Return the user's draft of this number, unless it has expired."""
    drafts = SourceDraft.objects.select_related("source", "slot__source")
    return drafts.filter(_not_expired(), pk=draft_id, user=user).first()


def unfinished(user: User) -> list[SourceDraft]:
    """Return the user's drafts that have not ended, newest first, at most five."""
    states = [State.OPEN, State.FAILED, State.WAITING, State.RUNNING]
    return list(SourceDraft.objects.filter(_not_expired(), user=user, state__in=states)
                .select_related("slot__source").order_by("-id")[:5])  # fmt: skip


def _not_expired() -> Q:
    return Q(touched_at__gt=timezone.now() - KEPT)


def keep(draft: SourceDraft, **answers: Any) -> bool:
    """Store the answers of one step; False where the draft can no longer be changed."""
    draft.answers = {**draft.answers, **answers}
    return _change(draft, answers=draft.answers)


def keep_address(draft: SourceDraft) -> bool:
    """Store a new address and password for the same server and database."""
    return _change(draft, answers=draft.answers, **address_of(draft))


def move(draft: SourceDraft) -> bool:
    """Store another address, and forget what was read at the former one."""
    for stale in ("check", "tables", "publications", "through", "columns", "statements"):
        draft.answers.pop(stale, None)
    return keep_address(draft)


def _change(draft: SourceDraft, **columns: Any) -> bool:
    changeable = SourceDraft.objects.filter(pk=draft.pk, state__in=CHANGEABLE)
    return changeable.update(touched_at=timezone.now(), **columns) == 1


def ask(draft: SourceDraft, statements: list[str]) -> bool:
    """Store the user's agreement to these statements; False where the draft cannot be changed."""
    draft.answers = {**draft.answers, "statements": statements}
    changed = _change(
        draft,
        answers=draft.answers,
        state=State.WAITING,
        asked_at=timezone.now(),
        seen_at=timezone.now(),
        stop_wanted=False,
        progress=[],
        **dict.fromkeys(("problem_code", "problem_cause", "problem_remedy"), ""),
    )
    rows.announce()
    return changed


def drop(draft: SourceDraft) -> bool:
    """Delete a draft, or stop it where a worker runs it. Returns whether it is deleted."""
    resting = [State.OPEN, State.FAILED, State.DONE, State.CANCELLED]
    if SourceDraft.objects.filter(pk=draft.pk, state__in=resting).delete()[0]:
        return True
    SourceDraft.objects.filter(pk=draft.pk).update(stop_wanted=True)
    # No worker has started it, so there is nothing to undo.
    return SourceDraft.objects.filter(pk=draft.pk, state=State.WAITING).delete()[0] > 0


def claim(kinds: list[str], draft_id: int | None = None) -> SourceDraft | None:
    """Claim the oldest draft that was agreed to, or this one; None where there is none.

    ``undo`` stays: it is the only list of what an earlier attempt of a watch left on the source.
    """
    condition = rows.waiting & Q(stop_wanted=False, kind__in=kinds)
    if draft_id is not None:
        condition &= Q(pk=draft_id)
    return rows.claim(condition, progress=[])


def waiting_watches() -> list[int]:
    """Return the watches that were agreed to and that no worker has started."""
    watches = rows.rows(rows.waiting, kind=SourceDraft.Kind.WATCH, stop_wanted=False)
    return list(watches.values_list("pk", flat=True))


def beat(draft: SourceDraft) -> bool:
    """Update the heartbeat and the shown progress; False where the job must end."""
    is_held = rows.beat(draft, progress=draft.progress, undo=draft.undo)
    return is_held and not rows.mine(draft).filter(stop_wanted=True).exists()


def end(draft: SourceDraft, state: str, **columns: Any) -> bool:
    """End the draft in this state, and delete its address unless it failed."""
    if state != "FAILED":
        columns |= dict.fromkeys(ADDRESS, "")
    return rows.end(draft, state, progress=draft.progress, undo=draft.undo, **columns)


def forget_expired() -> int:
    """Delete drafts and addresses that nobody touched for a day; return their number."""
    old = SourceDraft.objects.filter(touched_at__lt=timezone.now() - KEPT)
    return old.exclude(state=State.RUNNING).delete()[0]


def watch_of(slot: Slot) -> SourceDraft | None:
    """Return the running watch of a temporary slot; None for other slots."""
    if not slot.temporary:
        return None
    return SourceDraft.objects.filter(slot=slot, state=State.RUNNING).first()


def saw(slot_id: int, user_id: int) -> bool:
    """Note that the user has the watch's live page open; False where the watch is over."""
    watch = SourceDraft.objects.filter(slot_id=slot_id, user_id=user_id, state=State.RUNNING)
    now = timezone.now()
    return watch.update(seen_at=now, touched_at=now) > 0


def seen_seconds_ago(draft: SourceDraft) -> float:
    """Return the seconds since a live page of the watch was last open."""
    seen_at = SourceDraft.objects.filter(pk=draft.pk).values_list("seen_at", flat=True).first()
    return float("inf") if seen_at is None else (timezone.now() - seen_at).total_seconds()
