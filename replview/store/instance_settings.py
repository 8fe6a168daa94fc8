"""Read and write settings of the whole instance.

Some are: how often each source is sampled (``sampling.seconds``, 5), and how long samples are kept
raw (``samples.raw_hours``, 24), as a row a minute (``samples.minute_days``, 30) and as a row an
hour (``samples.hour_days``, 366); the rest are named where they are used. A setting takes effect at
once: none is cached.
"""

import json
from typing import Any

from django.db import connection

# Plain SQL, as settings are read every few seconds: the ORM would cost four times as much.
_READ = "SELECT value::text FROM setting WHERE name = %s"
_WRITE = """
    INSERT INTO setting (name, value, changed_at, changed_by)
    VALUES (%s, %s::jsonb, clock_timestamp(), %s)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at,
        changed_by = excluded.changed_by
"""
_FORGET = "DELETE FROM setting WHERE name = %s"


def read(name: str, default: object) -> Any:
    """Return a setting's value, or ``default`` where it is not set."""
    with connection.cursor() as cursor:
        row = cursor.execute(_READ, [name]).fetchone()
    return default if row is None else json.loads(row[0])


def read_number(name: str, default: float, *, least: float, most: float) -> float:
    """Return a setting within bounds; a value that is not a number counts as not set."""
    return number_of(read(name, default), default, least=least, most=most)


def number_of(value: object, default: float, *, least: float, most: float) -> float:
    """Return a setting's value within bounds, or ``default`` where it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    return min(max(float(value), least), most)


def write(name: str, value: Any, by: str = "replview") -> None:
    """Set a setting; None resets it. ``by`` is an account's name, or replview itself."""
    with connection.cursor() as cursor:
        if value is None:
            cursor.execute(_FORGET, [name])
        else:
            cursor.execute(_WRITE, [name, json.dumps(value), by])
