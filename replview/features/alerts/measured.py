"""One value of one subject."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured of a subject at one moment."""

    #: ``slot:12``, ``source:3``, ``store``, ``relation:7``.
    subject: str
    #: In the kind's unit; None: unknown.
    value: float | None
    #: What a message calls it.
    name: str
    source_id: int | None = None
    #: A ``WatchedSlot``'s.
    slot_id: int | None = None
    #: Further values that an alert keeps: never a value of the source's tables.
    detail: dict[str, Any] = field(default_factory=dict)
    #: Told only to a rule that is this slot's own.
    only_own_rule: bool = False
