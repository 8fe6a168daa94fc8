"""A slot's WAL budget in words, how much of it is used, and the form that changes it."""

from dataclasses import dataclass

from replview.catalog.plan.new_slot import HEARTBEAT, HEARTBEAT_BOUNDS
from replview.catalog.wal_budget import parse_budget, size_words
from replview.store.models import Slot, WatchedSlot
from replview.store.slot_control import DROPPED
from replview.text.parsing import whole_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the form shows."""

    slot: Slot
    #: One sentence: what holds now, and what follows from it.
    sentence: str
    #: As last sampled; None: unknown.
    retained_bytes: int | None
    #: Of the budget, in percent, at most 100 for the meter; None: unknown, or no budget.
    used_percent: int | None
    #: replview did not make it: it is dropped only where that is chosen here.
    adopted: bool
    #: Dropped at its budget: ``replview slot start`` creates it anew.
    dropped: bool
    heartbeat_statement: str
    #: What the fields hold: as chosen, or as typed and refused.
    typed_budget: str
    typed_protect: str
    typed_heartbeat: str
    error: str = ""

    @property
    def over_half(self) -> bool:
        """From where on replview warns."""
        return self.used_percent is not None and self.used_percent >= 50


def budget_of(slot: Slot, *, typed: dict[str, str] | None = None, error: str = "") -> Budget:
    """A slot's budget as it is now; ``typed``: what was sent and refused, with why."""
    watched = WatchedSlot.objects.filter(slot=slot, gone_at=None).first()
    retained = watched.facts.get("retained_wal_bytes") if watched is not None else None
    size = slot.wal_budget_bytes
    typed = typed or {}
    return Budget(
        slot=slot,
        sentence=_sentence(slot),
        retained_bytes=retained,
        used_percent=None if not size or retained is None else min(100, 100 * retained // size),
        adopted=not slot.owned,
        dropped=slot.problem_code == DROPPED,
        heartbeat_statement=HEARTBEAT.as_string(None),
        typed_budget=typed.get("wal_budget", "none" if size is None else size_words(size)),
        typed_protect=typed.get("protect", slot.protect),
        typed_heartbeat=typed.get("heartbeat", str(slot.heartbeat_seconds or "")),
        error=error,
    )


def parse_form(slot: Slot, sent: dict[str, str]) -> dict[str, object]:
    """What was sent as fields of a slot. Raises ``ValueError`` with what to correct."""
    protect = sent.get("protect", "")
    if protect not in Slot.Protect.values:
        raise ValueError("choose what comes first at the budget")
    heartbeat = sent.get("heartbeat", "").strip()
    least, most = HEARTBEAT_BOUNDS
    seconds: int | None = None
    if heartbeat:
        seconds = whole_number(heartbeat, digits=8)
        if seconds is None or not least <= seconds <= most:
            raise ValueError(f"a heartbeat is written every {least} to {most:,} seconds, or never")
    if seconds is not None and slot.source.in_recovery:
        raise ValueError("the source is a standby: no heartbeat can be written there")
    budget_bytes = parse_budget(sent.get("wal_budget", "").strip() or "none")
    if slot.wal_budget_bytes is not None and sent.get("wal_budget") == size_words(
        slot.wal_budget_bytes
    ):
        # As shown, which was rounded: not touched.
        budget_bytes = slot.wal_budget_bytes
    return {"wal_budget_bytes": budget_bytes, "protect": protect, "heartbeat_seconds": seconds}


def _sentence(slot: Slot) -> str:
    size = slot.wal_budget_bytes
    if size is None:
        return (
            "No budget: replview never drops this slot, whatever WAL it retains. Only the "
            "server's max_slot_wal_keep_size bounds it."
        )
    if slot.protect == Slot.Protect.RECORD:
        return (
            f"Protect the record: replview warns at {size_words(size // 2)} and at "
            f"{size_words(size)}, and drops nothing. The source's disk can fill."
        )
    return (
        f"Protect the database: replview warns at {size_words(size // 2)}; at {size_words(size)} "
        "it stops receiving and drops the slot on the source. The record then has a gap."
    )
