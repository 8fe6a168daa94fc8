"""The messages of the live stream, over the channel layer and to browsers.

This module needs the standard library only, because the receiver uses it without Django. The
channel layer carries wake-ups and cursors, never rows: a woken process reads the store.
"""

from dataclasses import dataclass, replace
from typing import Any

#: The ``type`` of a wake-up on the channel layer.
WAKE = "replview.wake"

#: Transactions were stored (or an open one grew).
COMMIT = "commit"
#: The slot's state changed, or its log got a line.
SLOT = "slot"
#: A source's slots have new samples.
SAMPLE = "sample"
#: An export made progress, or ended.
EXPORT = "export"
#: An account's rights changed, or its sessions have ended.
ACCOUNT = "account"

#: Close codes of the socket (4000 to 4999 are for applications).
NOT_SIGNED_IN = 4401
NOT_ALLOWED = 4403
NO_SUCH_SLOT = 4404
NOT_UNDERSTOOD = 4400
#: The account, the address, or all together have too many sockets open.
TOO_MANY = 4429


def group_of(slot_id: int) -> str:
    """Return the channel layer's group for a slot's watchers."""
    return f"slot.{slot_id}"


def source_group_of(source_id: int) -> str:
    """Return the channel layer's group for watchers of a source's samples."""
    return f"source.{source_id}"


def export_group_of(export_id: int) -> str:
    """Return the channel layer's group for watchers of an export."""
    return f"export.{export_id}"


def account_group_of(account_id: int) -> str:
    """Return the channel layer's group for the sockets of an account."""
    return f"account.{account_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """A wake-up: the store has something new about a slot, a source, an export or an account."""

    #: 0 in each id that the wake-up is not about.
    slot_id: int = 0
    source_id: int = 0
    export_id: int = 0
    account_id: int = 0
    kind: str = COMMIT
    incarnation_id: int | None = None
    #: The last commit_seq assigned; 0 where unknown.
    commit_seq: int = 0
    #: True when a streaming or prepared transaction began, grew or ended.
    open_changed: bool = False

    @property
    def group(self) -> str:
        """Return the channel layer's group that gets this wake-up."""
        if self.kind == EXPORT:
            return export_group_of(self.export_id)
        if self.kind == ACCOUNT:
            return account_group_of(self.account_id)
        return source_group_of(self.source_id) if self.kind == SAMPLE else group_of(self.slot_id)

    def merged_with(self, later: "Wake") -> "Wake":
        """Return one wake-up for two of the same group; the later cursor counts."""
        if later.kind in (SAMPLE, EXPORT, ACCOUNT):
            return later
        return replace(
            later,
            kind=SLOT if SLOT in (self.kind, later.kind) else COMMIT,
            incarnation_id=later.incarnation_id or self.incarnation_id,
            commit_seq=later.commit_seq or self.commit_seq,
            open_changed=self.open_changed or later.open_changed,
        )

    def to_message(self) -> dict[str, object]:
        """Return the wake-up as a message of the channel layer."""
        if self.kind == SAMPLE:
            return {"type": WAKE, "kind": SAMPLE, "source": self.source_id}
        if self.kind == EXPORT:
            return {"type": WAKE, "kind": EXPORT, "export": self.export_id}
        if self.kind == ACCOUNT:
            return {"type": WAKE, "kind": ACCOUNT, "account": self.account_id}
        return {
            "type": WAKE,
            "kind": self.kind,
            "slot": self.slot_id,
            "incarnation": self.incarnation_id,
            "commit_seq": self.commit_seq,
            "open_changed": self.open_changed,
        }

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> "Wake":
        """Read a message of the channel layer."""
        return cls(
            slot_id=message.get("slot", 0),
            source_id=message.get("source", 0),
            export_id=message.get("export", 0),
            account_id=message.get("account", 0),
            kind=message.get("kind", COMMIT),
            incarnation_id=message.get("incarnation"),
            commit_seq=message.get("commit_seq", 0),
            open_changed=message.get("open_changed", False),
        )
