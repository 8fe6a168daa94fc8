"""A slot's WAL budget: its current state, and the form that changes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms

from replview.catalog.plan.new_slot import HEARTBEAT, HEARTBEAT_BOUNDS
from replview.catalog.wal_budget import parse_budget
from replview.store.models import Slot, WatchedSlot
from replview.store.slot_budget import DROPPED
from replview.text.formats import bytes_words
from replview.ui.forms import ProtectField, SizeField

_LEAST_SECONDS, _MOST_SECONDS = HEARTBEAT_BOUNDS
_HEARTBEAT_ERROR = (
    f"A heartbeat is written every {_LEAST_SECONDS} to {_MOST_SECONDS:,} seconds, or never."
)


class BudgetForm(forms.Form):
    """The form of a slot's WAL budget, its protection, and its heartbeat."""

    wal_budget = SizeField(
        parse_budget, label="Maximum retained WAL", help_text="10GB, 500MB, or none"
    )
    protect = ProtectField(
        database="replview drops the slot, which frees the WAL; history has a gap.",
        record="replview only warns; the source's disk may fill up, which stops the source.",
    )
    heartbeat = forms.IntegerField(
        label="Heartbeat, every",
        help_text="seconds without a commit; empty: never. An idle slot retains no WAL without it "
        "either",
        min_value=_LEAST_SECONDS,
        max_value=_MOST_SECONDS,
        required=False,
        error_messages=dict.fromkeys(("invalid", "min_value", "max_value"), _HEARTBEAT_ERROR),
        widget=forms.TextInput(
            attrs={"class": "mono", "inputmode": "numeric", "autocomplete": "off", "maxlength": 6}
        ),
    )

    def __init__(self, slot: Slot, data: Mapping[str, Any] | None = None) -> None:
        self.slot = slot
        initial = {"protect": slot.protect, "heartbeat": slot.heartbeat_seconds or ""}
        super().__init__(data, initial=initial)
        self.fields["wal_budget"].initial = slot.wal_budget_bytes

    def clean_heartbeat(self) -> int | None:
        """Return the interval in seconds; refuse one on a standby, which is read-only."""
        seconds: int | None = self.cleaned_data["heartbeat"]
        if seconds is not None and self.slot.source.in_recovery:
            raise forms.ValidationError(
                "The source is a standby: no heartbeat can be written there."
            )
        return seconds

    def changes(self) -> dict[str, object]:
        """Return the values as columns of the slot."""
        data = self.cleaned_data
        return {
            "wal_budget_bytes": data["wal_budget"],
            "protect": data["protect"],
            "heartbeat_seconds": data["heartbeat"],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A slot's budget, with the form that changes it."""

    slot: Slot
    sentence: str
    #: Retained WAL in the last sample; None when unknown.
    retained_bytes: int | None
    #: Share of the budget for the meter, at most 100; None when unknown or without budget.
    used_percent: int | None
    #: True for a slot that replview did not create, and drops only if that is chosen here.
    adopted: bool
    #: True when the slot was dropped at its budget; ``replview slot start`` creates it again.
    dropped: bool
    heartbeat_statement: str
    form: BudgetForm


def budget_of(slot: Slot, form: BudgetForm | None = None) -> Budget:
    """Return a slot's budget; ``form`` is a form that was refused."""
    watched = WatchedSlot.objects.filter(slot=slot, gone_at=None).first()
    retained_bytes = watched.facts.get("retained_wal_bytes") if watched is not None else None
    budget_bytes = slot.wal_budget_bytes
    return Budget(
        slot=slot,
        sentence=_sentence(slot),
        retained_bytes=retained_bytes,
        used_percent=None
        if not budget_bytes or retained_bytes is None
        else min(100, 100 * retained_bytes // budget_bytes),
        adopted=not slot.owned,
        dropped=slot.problem_code == DROPPED,
        heartbeat_statement=HEARTBEAT.as_string(None),
        form=form or BudgetForm(slot),
    )


def _sentence(slot: Slot) -> str:
    budget_bytes = slot.wal_budget_bytes
    if budget_bytes is None:
        return (
            "No budget: replview never drops this slot, however much WAL it retains. Only the "
            "server's max_slot_wal_keep_size (PostgreSQL 13 and later) limits that."
        )
    size, half = bytes_words(budget_bytes), bytes_words(budget_bytes // 2)
    if slot.protect == Slot.Protect.RECORD:
        return (
            f"Protect the record: replview warns at {half} and at {size} of retained WAL but never "
            "drops the slot, so the source's disk can fill up."
        )
    return (
        f"Protect the database: replview warns at {half} of retained WAL; at {size} it stops "
        "receiving and drops the slot on the source. History then has a gap."
    )
