"""Describe a quarantined message in words, and dump its bytes in hex."""

from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from replview.store.models import Quarantine, Slot
from replview.store.quarantine import changes_so_far, open_quarantine, skip_word
from replview.text.formats import plural

#: Number of bytes of a message that the page shows.
SHOWN_BYTES = 4096
#: Time after which a receiver that has not acted on a decision is overdue.
OBEYS_WITHIN = timedelta(seconds=15)

TAGS = {
    "I": "insert",
    "U": "update",
    "D": "delete",
    "T": "truncate",
    "M": "message",
    "R": "description of a table",
    "Y": "description of a type",
    "O": "origin",
    "B": "begin",
    "C": "commit",
    "S": "start of a stream",
    "E": "end of a stream",
    "c": "commit of a stream",
    "A": "abort of a stream",
    "b": "begin of a prepared transaction",
    "P": "prepare",
    "K": "commit prepared",
    "r": "rollback prepared",
    "p": "prepare of a stream",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """The quarantined message that stops a slot, with the texts about a decision."""

    row: Quarantine
    tag: str
    #: Text to type to confirm a skip; empty if there is nothing to skip.
    word: str
    #: Consequence of a skip, shown before it is confirmed.
    consequence: str
    #: The receiver's reaction to a decision.
    follows: str
    #: True when the receiver has not acted on a decision in time.
    overdue: bool
    #: Error message of the form.
    error: str = ""
    typed: str = ""

    @property
    def undecided(self) -> bool:
        """Return whether an operator has still to decide."""
        return self.row.decision == Quarantine.Decision.NONE

    @property
    def shown(self) -> str:
        """Return a key that changes when this part of the page must be refreshed."""
        return f"{self.row.pk}:{self.row.decision}:{self.follows}"

    @property
    def skipped(self) -> str:
        """Return what a skip leaves out, such as ``transaction 757``."""
        return thing(self.row)

    @property
    def decided(self) -> str:
        """Return who decided what, and what follows."""
        skips = self.row.decision == Quarantine.Decision.SKIP
        decision = f"skip {self.skipped}" if skips else "try again"
        return f"{self.row.decided_by} decided to {decision}. {self.follows}"


def quarantined(slot: Slot, user: str, *, error: str = "", typed: str = "") -> Quarantined | None:
    """Return the message that stops the slot now; None if none does."""
    row = open_quarantine(slot)
    if row is None:
        return None
    late = row.decided_at is not None and timezone.now() - row.decided_at > OBEYS_WITHIN
    word, streams = skip_word(row), slot.state == Slot.State.STREAMING
    return Quarantined(
        row=row,
        tag=tag_words(row.tag),
        word=word,
        consequence=consequence(row, user) if word else "",
        follows=_reaction(row, streams, late),
        overdue=late and not streams,
        error=error,
        typed=typed,
    )


def _reaction(row: Quarantine, streams: bool, late: bool) -> str:
    if streams and row.decision == Quarantine.Decision.SKIP:
        return "It is received again, and skipped."
    if late:
        return (
            "The receiver has not done so yet. Next: check that the slot is started and a "
            "worker runs."
        )
    return "The receiver does so within seconds."


def thing(row: Quarantine) -> str:
    """Return what a skip leaves out: the transaction, or a single message."""
    return f"transaction {row.xid}" if row.xid is not None else f"the message at {row.lsn}"


def tag_words(tag: str) -> str:
    """Return the message type in words, such as ``insert (I)``, or just an unknown tag."""
    if not tag:
        return "unknown"
    return f"{TAGS[tag]} ({tag})" if tag in TAGS else f"tag {tag}"


def consequence(row: Quarantine, by: str) -> str:
    """Return what a skip removes from the record, and the account it is recorded under."""
    record_note = f"the gap is recorded under your name ({by})."
    if row.xid is None:
        return f"The message at {row.lsn} will never be stored; {record_note}"
    count = changes_so_far(row)
    changes = (
        f"{plural(count, 'change')} received so far of transaction {row.xid}, and all that follow,"
        if count
        else f"All changes of transaction {row.xid} (number unknown: it was not received "
        "completely)"
    )
    return f"{changes} will never be stored; {record_note}"


def hex_dump(data: bytes) -> str:
    """Return sixteen bytes per line: offset, bytes, and printable ASCII characters."""
    lines = []
    for offset in range(0, len(data), 16):
        part = data[offset : offset + 16]
        left, right = part[:8].hex(" "), part[8:].hex(" ")
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{offset:08x}  {left:<23}  {right:<23}  |{text}|")
    return "\n".join(lines)
