"""Measured values of a rule's subjects: at present, and over a past period."""

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

MeasuredPoint = tuple[dt.datetime, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measured value of a subject at one moment."""

    #: ``slot:12``, ``source:3``, ``lake:5``, ``store`` or ``relation:7``.
    subject: str
    #: The measured value in the kind's unit; None is unknown.
    value: float | None
    #: The subject's name in messages.
    name: str
    source_id: int | None = None
    #: Id of a ``WatchedSlot``.
    slot_id: int | None = None
    #: Further values that an alert stores; never values of the source's tables.
    detail: dict[str, Any] = field(default_factory=dict)
    #: True when the value is only for a rule of this slot alone.
    only_own_rule: bool = False


@dataclass
class MeasuredSeries:
    """The measured values of one subject, oldest first."""

    name: str
    points: list[MeasuredPoint] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A period in which a rule would have fired."""

    name: str
    fired_at: dt.datetime
    #: None if the alert would still be firing.
    cleared_at: dt.datetime | None
    worst: float | None
