"""The base classes of alert kinds: what rules, messages, forms and trials ask a kind."""

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from django import forms

from replview.features.alerts.amount_field import EXAMPLES, AmountField
from replview.features.alerts.amounts import Unit
from replview.features.alerts.measured import Episode, Measured, MeasuredSeries
from replview.features.alerts.snapshot import StoreSnapshot
from replview.store.models import Alert, AlertRule


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInRule:
    """A built-in rule of a kind: its fields, as they are until a user changes them."""

    #: Identifies the rule; it stays when the rule is changed.
    key: str
    name: str
    severity: AlertRule.Severity
    threshold: float | None = None
    clear_threshold: float | None = None
    hold_seconds: float = 0
    clear_seconds: float = 0


class AlertKind:
    """A kind of alert rule."""

    #: The kind's name in the store, in addresses and in webhook messages; at most 20 characters.
    key: ClassVar[str]
    #: The kind's name on pages.
    word: ClassVar[str]
    #: A sentence that says what is measured.
    about: ClassVar[str]
    #: A sentence that says what to do when the rule fires.
    remedy: ClassVar[str]
    unit: ClassVar[Unit] = Unit.YES_NO
    #: True when the rule fires below its threshold instead of at or above it.
    below: ClassVar[bool] = False
    #: True for an event: it fires at once, and ends when a user marks it as seen or after a while.
    event: ClassVar[bool] = False
    #: True when a rule of this kind measures slots, so that a slot can have its own rule.
    per_slot: ClassVar[bool] = False
    #: False when a newer version made the rule, so that this version cannot evaluate it.
    known: ClassVar[bool] = True
    built_in: ClassVar[tuple[BuiltInRule, ...]] = ()
    #: Names of an alert's details that its page shows elsewhere.
    hidden_details: ClassVar[frozenset[str]] = frozenset()

    def form_fields(self) -> dict[str, forms.Field]:
        """Return the fields of a rule's form that its kind decides."""
        fields: dict[str, forms.Field] = {}
        if self.unit != Unit.YES_NO:
            fields["threshold"] = AmountField(
                self.unit,
                "Fires below" if self.below else "Fires from",
                EXAMPLES[self.unit],
                required=True,
            )
            fields["clear_threshold"] = AmountField(
                self.unit, "Over from" if self.below else "Over below", "empty: at the same value"
            )
        if not self.event:
            fields["hold"] = AmountField(Unit.SECONDS, "Fires after", "0 s: at once")
            fields["clear"] = AmountField(Unit.SECONDS, "Clears after", "0 s: at once")
        return fields

    def past_series(
        self, rule: AlertRule, since: dt.datetime, until: dt.datetime
    ) -> list[MeasuredSeries] | None:
        """Return past values for each subject of the rule; None: the store keeps none."""
        return None

    def past_episodes(
        self, rule: AlertRule, since: dt.datetime, until: dt.datetime
    ) -> list[Episode] | None:
        """Return when the rule would have fired, if the store records that; None: it does not."""
        return None


class MeasuredKind(AlertKind, ABC):
    """A kind whose rules compare a measured value with their threshold."""

    @abstractmethod
    def measure(self, snapshot: StoreSnapshot) -> Iterator[Measured]:
        """Yield the present value of every subject.

        A subject that is not measured is gone, and its alerts end.
        """

    @abstractmethod
    def fired_message(self, measured: Measured) -> str:
        """Return the sentence for an alert that fires."""


class EventKind(AlertKind, ABC):
    """A kind whose rules fire for each event that the store records."""

    event = True

    @abstractmethod
    def read_events(
        self, rule: AlertRule, overridden: set[int], now: dt.datetime
    ) -> tuple[list[Alert], list[Alert]]:
        """Return new alerts, not yet saved, and open ones that count further events.

        ``overridden`` has the ids of watched slots that have a rule of their own.
        """

    @abstractmethod
    def end_rested(self, alerts: Iterable[Alert], now: dt.datetime) -> list[Alert]:
        """End the alerts that had no event for a while; return them, not yet saved."""


def problem_text(detail: Mapping[str, Any]) -> str:
    """Return the problem's code as words in parentheses; empty if there is no problem."""
    problem = str(detail.get("problem") or "").replace("_", " ")
    return f" ({problem})" if problem else ""
