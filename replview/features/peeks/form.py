"""The form that requests a peek into a slot: its choices, and the reading of its answers."""

from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict

from replview.catalog.peekable import PeekableServer
from replview.catalog.slots import SlotFacts
from replview.text.formats import bytes_words

CHANGES = (1_000, 10_000, 100_000)
SECONDS = (5, 15, 60)


@dataclass(slots=True)
class PeekForm:
    """The choices and the current values of the form that requests a peek."""

    place: PeekableServer
    slot: SlotFacts
    #: Publications of replview's own slot; empty for a slot that replview does not read.
    ours: list[str]
    changes: int = CHANGES[0]
    seconds: int = SECONDS[1]
    chosen: list[str] = field(default_factory=list)
    error: str = ""

    def __post_init__(self) -> None:
        self.chosen = self.known or self.place.publications

    @property
    def known(self) -> list[str]:
        """Return the publications that the slot's reader is known to use and that still exist."""
        return self.place.used_by(self.slot, self.ours)

    @property
    def asks_publications(self) -> bool:
        """Return whether publications must be chosen, which only pgoutput needs."""
        return self.slot.plugin == "pgoutput"

    @property
    def reads(self) -> str | None:
        """Return how much WAL the server must read for the peek; None when unknown."""
        size = self.slot.retained_wal_bytes
        return None if size is None else bytes_words(size)

    @property
    def change_choices(self) -> tuple[int, ...]:
        """Return the choices for the most changes to read."""
        return CHANGES

    @property
    def second_choices(self) -> tuple[int, ...]:
        """Return the choices for the most seconds to read."""
        return SECONDS

    def keep_bounds(self, params: QueryDict) -> None:
        """Select the bounds that an address names; ignore values that are no choice."""
        self.changes = _parse_choice(params.get("changes"), CHANGES) or self.changes
        self.seconds = _parse_choice(params.get("seconds"), SECONDS) or self.seconds


def read_form(form: PeekForm, params: QueryDict) -> dict[str, Any] | None:
    """Return the answers as arguments of ``jobs.peeks.request``; None and ``form.error`` if bad."""
    form.changes = _parse_choice(params.get("changes"), CHANGES)
    form.seconds = _parse_choice(params.get("seconds"), SECONDS)
    options: dict[str, Any] = {}
    if form.asks_publications:
        requested = params.getlist("publication")
        form.chosen = [name for name in form.place.publications if name in requested]
        if not form.chosen:
            form.error = "Choose at least one publication: pgoutput sends nothing without one."
            return None
        options["publications"] = form.chosen
    if form.changes not in CHANGES or form.seconds not in SECONDS:
        form.error = "Choose a limit for changes and one for seconds."
        form.changes, form.seconds = CHANGES[0], SECONDS[1]
        return None
    return {"options": options, "max_changes": form.changes, "max_seconds": form.seconds}


def _parse_choice(text: str | None, choices: tuple[int, ...]) -> int:
    """Return the choice with that text; 0 if there is none."""
    return next((choice for choice in choices if str(choice) == text), 0)
