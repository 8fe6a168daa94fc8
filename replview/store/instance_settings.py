"""Choices for the whole instance: how often each source is looked at (``sampling.seconds``, 5), how
long samples are kept whole (``samples.raw_hours``, 24), a row a minute (``samples.minute_days``,
30) and a row an hour (``samples.hour_days``, 366); others are named where they are used. A choice
holds at once: nothing is kept in memory.
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
