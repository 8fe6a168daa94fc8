"""Choices for the whole instance: how often it samples, how long it keeps, what comes first.

``sampling.seconds``
    how often each source is looked at (5).
``samples.raw_hours``, ``samples.minute_days``, ``samples.hour_days``
    how long samples are kept whole (24), a row a minute (30), a row an hour (366).

Others are named where they are used. A choice holds at once: nothing is kept in memory.
"""

import json
from typing import Any

from django.db import connection

# Read every few seconds: past the ORM, which would cost four times as much.
_READ = "SELECT value::text FROM setting WHERE name = %s"
_WRITE = """
    INSERT INTO setting (name, value, changed_at, changed_by)
    VALUES (%s, %s::jsonb, clock_timestamp(), %s)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at,
        changed_by = excluded.changed_by
"""
_FORGET = "DELETE FROM setting WHERE name = %s"


def read(name: str, default: object) -> Any:
    """What was chosen, or the default."""
    with connection.cursor() as cursor:
        found = cursor.execute(_READ, [name]).fetchone()
    return default if found is None else json.loads(found[0])


def read_number(name: str, default: float, *, least: float, most: float) -> float:
    """A chosen number within bounds; what is no number there counts as not chosen."""
    value = read(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    return min(max(float(value), least), most)


def write(name: str, value: Any, by: str = "replview") -> None:
    """Choose; None: back to the default. ``by``: an account's name, or replview itself."""
    with connection.cursor() as cursor:
        if value is None:
            cursor.execute(_FORGET, [name])
        else:
            cursor.execute(_WRITE, [name, json.dumps(value), by])
