"""Format a slot's retention, what a shorter one would delete, and the forecasts of the store."""

import datetime as dt
import re

from replview.store.retention.forecast import Forecast, Rate, RetentionLoss, SlotForecast
from replview.store.retention.policy import Keeping
from replview.text.formats import bytes_words, plural

_UNITS = {"": 1, "d": 1, "w": 7, "y": 365}
_DAY_SECONDS = 86_400
#: Most days of a forecast that are shown exactly.
_FAR_DAYS = 3650


def parse_keep_for(text: str) -> int | None:
    """Read ``30d``, ``12w`` or ``30``; None for ``none``. Raises ``ValueError`` with a remedy."""
    value = text.strip().lower()
    if value in ("", "none", "ever"):
        return None
    match = re.fullmatch(r"([0-9]{1,6})\s*([dwy]?)(ays?|eeks?|ears?)?", value)
    if match is None:
        raise ValueError(f"{text.strip()[:40]!r} is not a retention time: write 30d, 12w, or none")
    return int(match[1]) * _UNITS[match[2]]


def days_typed(days: int | None) -> str:
    """Return days in the form that ``parse_keep_for`` reads."""
    return "none" if days is None else f"{days}d"


def has_words(forecast: SlotForecast) -> str:
    """Return ``it has about 43 MB``."""
    if forecast.store_bytes is None:
        return "its size is not counted yet"
    return f"it has about {bytes_words(forecast.store_bytes)}"


def keeping_words(keeping: Keeping) -> str:
    """Return ``for 30 days, and at most 50 GB``, or ``for ever``."""
    age = f"for {plural(keeping.for_days, 'day')}" if keeping.for_days is not None else ""
    size = f"at most {bytes_words(keeping.at_most_bytes)}" if keeping.at_most_bytes else ""
    return ", and ".join(word for word in (age, size) if word) or "for ever"


def loss_sentence(loss: RetentionLoss) -> str:
    """Return a sentence about what would be deleted."""
    if loss.nothing:
        return "Nothing would be deleted now, only days that grow older."
    span = f"{loss.first}" if loss.first == loss.last else f"{loss.first} to {loss.last}"
    baselines = f", and {plural(loss.baselines, 'baseline')}" if loss.baselines else ""
    return (
        f"{plural(loss.days, 'day')} would be deleted ({span}): "
        f"{plural(loss.transactions, 'transaction')} with {plural(loss.changes, 'change')} in "
        f"{plural(len(loss.tables), 'table')}, about {bytes_words(loss.store_bytes)}{baselines}."
    )


def loss_notes(loss: RetentionLoss) -> list[str]:
    """Return further sentences to read before the change."""
    notes = []
    if loss.counted_through is not None:
        until = "" if loss.counted_through == dt.date.min else f" after {loss.counted_through}"
        notes.append(f"Days{until} are not all counted yet: more may be deleted than shown.")
    if loss.nothing:
        return notes
    if loss.archived:
        notes.append("Each day is deleted only after it is archived, and stays readable there.")
    else:
        notes.append("There is no archive: deleted days are lost.")
    return notes


def rate_of(rate: Rate) -> str:
    """Return ``1.2 GB a day over the last 7 days``."""
    days = rate.seconds / _DAY_SECONDS
    span = f"{days:.0f} days" if days >= 1.5 else f"{rate.seconds / 3600:.0f} hours"
    sign = "-" if rate.bytes_per_day < 0 else ""
    return f"{sign}{bytes_words(abs(rate.bytes_per_day))} a day over the last {span}"


def full_sentence(forecast: Forecast) -> str:
    """Return when the store is full: ``Its disk is full in 12 days at this rate.``."""
    rate = forecast.rate
    if rate is None:
        return "The forecast is unknown: its growth is measured after an hour."
    if forecast.room_bytes is None:
        return (
            "It is unknown when the store is full: the free space of its disk cannot be read from "
            "here, and no budget is set."
        )
    subject = "Its disk" if forecast.of == "disk" else "Its budget"
    if rate.bytes_per_day <= 0:
        return f"{subject} does not fill at this rate: the store does not grow."
    return f"{subject} is full in {days_words(forecast.days_left(rate))} at this rate."


def days_words(days: float | None) -> str:
    """Return ``12 days`` or ``5 hours``."""
    if days is None:
        return "an unknown time"
    if days > _FAR_DAYS:
        return "more than ten years"
    if days < 1:
        return plural(max(1, round(days * 24)), "hour")
    return plural(round(days), "day")


def slot_forecast_words(forecast: SlotForecast) -> str:
    """Return how the size of a slot's record will develop, in a sentence."""
    if forecast.bytes_per_day is None:
        return "its growth is unknown until a whole day is recorded"
    grows = f"grows by {bytes_words(forecast.bytes_per_day)} a day"
    if forecast.levels_off_bytes is None:
        return f"{grows}, and keeps everything"
    level = f"levels off at about {bytes_words(forecast.levels_off_bytes)}"
    if forecast.days_left is None:
        return f"{grows}; {level}"
    if forecast.days_left == 0:
        return f"{grows}; is at its size limit, and its oldest days are deleted"
    return f"{grows}; reaches its size limit in {days_words(forecast.days_left)}"


def kept_words(forecast: SlotForecast) -> str:
    """Return a slot's retention in words."""
    return keeping_words(Keeping.of(forecast.slot))


def how_words(alike: bool) -> str:
    """Return a sentence on how days are deleted: by partition, or row by row."""
    if alike:
        return (
            "All slots have the same retention: a day is deleted by dropping its partition, "
            "without vacuum."
        )
    return (
        "Slots have different retention: a day's partition is dropped when no slot needs it; until "
        "then a slot's rows are deleted one by one, and autovacuum frees their space."
    )
