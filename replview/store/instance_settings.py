"""Choices for the whole instance: how often it samples, how long it keeps, what comes first.

``sampling.seconds``
    how often each source is looked at (5).
``samples.raw_hours``, ``samples.minute_days``, ``samples.hour_days``
    how long samples are kept whole (24), a row a minute (30), a row an hour (366).

Others are named where they are used. A choice holds at once: nothing is kept in memory.
"""

from typing import Any

from django.utils import timezone

from replview.store.models import Setting


def read(name: str, default: Any) -> Any:
    """What was chosen, or the default."""
    found = Setting.objects.filter(name=name).values_list("value", flat=True).first()
    return default if found is None else found


def read_number(name: str, default: float, *, least: float, most: float) -> float:
    """A chosen number within bounds; what is no number there counts as not chosen."""
    value = read(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    return min(max(float(value), least), most)


def write(name: str, value: Any, by: str = "replview") -> None:
    """Choose; None: back to the default. ``by``: an account's name, or replview itself."""
    if value is None:
        Setting.objects.filter(name=name).delete()
        return
    chosen = {"value": value, "changed_at": timezone.now(), "changed_by": by}
    Setting.objects.update_or_create(name=name, defaults=chosen)
