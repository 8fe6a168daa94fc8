"""The form that asks for a look into a slot: its choices, and reading what was sent."""

from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict

from replview.catalog.peekable import Place
from replview.catalog.slots import SlotFacts
from replview.text.formats import bytes_words

CHANGES = (1_000, 10_000, 100_000)
SECONDS = (5, 15, 60)


@dataclass(slots=True)
class PeekForm:
    """The choices of a form that asks for a look, as they stand."""

    place: Place
    slot: SlotFacts
    #: Of the slot's row where replview reads it.
    ours: list[str]
    changes: int = CHANGES[0]
    seconds: int = SECONDS[1]
    chosen: list[str] = field(default_factory=list)
    error: str = ""

    def __post_init__(self) -> None:
        self.chosen = self.known or self.place.publications

    @property
    def known(self) -> list[str]:
        """The publications its reader is known to use, as far as they still exist."""
        return self.place.used_by(self.slot, self.ours)

    @property
    def asks_publications(self) -> bool:
        """Only pgoutput must be told."""
        return self.slot.plugin == "pgoutput"

    @property
    def reads(self) -> str | None:
        """How much WAL PostgreSQL reads for it; None where unknown."""
        size = self.slot.retained_wal_bytes
        return None if size is None else bytes_words(size)

    @property
    def change_choices(self) -> tuple[int, ...]:
        return CHANGES

    @property
    def second_choices(self) -> tuple[int, ...]:
        return SECONDS

    def keep_bounds(self, sent: QueryDict) -> None:
        """Choose the bounds that an address names; what is no choice leaves them as they are."""
        self.changes = _one_of(sent.get("changes"), CHANGES) or self.changes
        self.seconds = _one_of(sent.get("seconds"), SECONDS) or self.seconds


def read_form(form: PeekForm, sent: QueryDict) -> dict[str, Any] | None:
    """What was sent, as ``jobs.peeks.request`` takes it; None with ``form.error`` said."""
    form.changes = _one_of(sent.get("changes"), CHANGES)
    form.seconds = _one_of(sent.get("seconds"), SECONDS)
    options: dict[str, Any] = {}
    if form.asks_publications:
        asked = sent.getlist("publication")
        form.chosen = [name for name in form.place.publications if name in asked]
        if not form.chosen:
            form.error = "Choose at least one publication: pgoutput sends nothing without."
            return None
        options["publications"] = form.chosen
    if form.changes not in CHANGES or form.seconds not in SECONDS:
        form.error = "Choose one of the bounds for changes and one for seconds."
        form.changes, form.seconds = CHANGES[0], SECONDS[1]
        return None
    return {"options": options, "max_changes": form.changes, "max_seconds": form.seconds}


def _one_of(text: str | None, choices: tuple[int, ...]) -> int:
    """The choice of that text; 0 where there is none."""
    return next((choice for choice in choices if str(choice) == text), 0)
