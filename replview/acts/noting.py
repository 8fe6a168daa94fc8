"""Record who did what, in the slot's log and in the access record."""

from typing import Any

from replview.store.models import Slot, Source
from replview.store.read.seen import without_row_filters
from replview.store.slot_log import add_line, after_seq
from replview.store.write.access_record import note

#: The kind of a log line about something that a person did to the slot.
MANAGED = "managed"


def note_slot(slot: Slot, act: str, message: str, *, by: str, **detail: Any) -> None:
    """Note that a slot was created, adopted, started, stopped or dropped, or its tables changed.

    ``message``: one sentence, without the name of the account.
    """
    log_slot(slot, act, message, by=by, **detail)
    note(
        "changed_slot",
        subject=str(slot),
        source_id=slot.source_id,
        # Nothing is ever taken out of the access record, and a row filter quotes values.
        details={"act": act, "by": by, **without_row_filters(detail)},
    )


def log_slot(slot: Slot, act: str, message: str, *, by: str, **detail: Any) -> None:
    """Write only into the slot's log, where the access record has a line about the source."""
    slot.refresh_from_db(fields=["incarnation", "checkpoint_lsn"])
    add_line(slot, MANAGED, f"{message} Done by {by}.", lsn=slot.checkpoint_lsn,
             after_commit_seq=after_seq(slot), detail={"act": act, "by": by, **detail})  # fmt: skip


def note_source(source: Source, act: str, *, by: str, **detail: Any) -> None:
    """Record that a source was added, renamed, moved, removed, or got other credentials."""
    note(
        "changed_source",
        subject=source.name,
        source_id=source.pk,
        details={"act": act, "by": by, **detail},
    )


def declared_words(source: Source) -> str:
    """Return a warning that the file declaring the source will undo the change; may be empty."""
    if not source.managed_by:
        return ""
    return (
        f"{source} is declared in {source.managed_by}: applying that file again undoes changes of "
        "the source and its slots that differ from it. Change the file instead."
    )
