"""The vocabulary of the live stream: what travels over the channel layer and to browsers.

The standard library alone: the receiver uses it without Django. The channel layer carries wake-ups
and cursors, never rows: whoever is woken reads the store.
"""

from dataclasses import dataclass, replace
from typing import Any

#: The ``type`` of a wake-up on the channel layer.
WAKE = "replview.wake"

#: Transactions were stored (or an open one grew).
COMMIT = "commit"
#: The slot's state changed, or its log got a line.
SLOT = "slot"
#: A source's slots were sampled.
SAMPLE = "sample"
#: An export went on, or ended.
EXPORT = "export"
#: An account may something else now, or its sessions have ended.
ACCOUNT = "account"

#: Close codes of the socket (4000 to 4999 are the application's).
NOT_SIGNED_IN = 4401
NOT_ALLOWED = 4403
NO_SUCH_SLOT = 4404
NOT_UNDERSTOOD = 4400
#: The account, the address, or all together have as many under way as they may.
TOO_MANY = 4429


def group_of(slot_id: int) -> str:
    """Return the channel layer's group for those who watch a slot."""
    return f"slot.{slot_id}"


def source_group_of(source_id: int) -> str:
    return f"source.{source_id}"


def export_group_of(export_id: int) -> str:
    return f"export.{export_id}"


def account_group_of(account_id: int) -> str:
    return f"account.{account_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """Something new is in the store: of a slot, of a source, of an export, or of an account."""

    #: 0: it is about something else.
    slot_id: int = 0
    source_id: int = 0
    export_id: int = 0
    account_id: int = 0
    kind: str = COMMIT
    incarnation_id: int | None = None
    #: The last commit_seq given out; 0 where unknown.
    commit_seq: int = 0
    #: A streaming or prepared transaction began, grew or ended.
    open_changed: bool = False

    @property
    def group(self) -> str:
        if self.kind == EXPORT:
            return export_group_of(self.export_id)
        if self.kind == ACCOUNT:
            return account_group_of(self.account_id)
        return source_group_of(self.source_id) if self.kind == SAMPLE else group_of(self.slot_id)

    def merged_with(self, later: "Wake") -> "Wake":
        """Return one wake-up for both, of the same group; the later cursor counts."""
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
