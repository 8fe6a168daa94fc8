"""This module formats bytes with units, counts, ages, rates and the names of types.

An unknown value stays None and never becomes zero.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

#: Units in PostgreSQL's spelling, in steps of 1024: ``64GB`` is 64 times 1024 cubed.
UNITS = ("B", "kB", "MB", "GB", "TB", "PB")

NO_BREAK = "\u00a0"
#: Characters that control a terminal, begin a line or reverse the order of the text.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_SHORT_SPELLINGS = (
    (re.compile(r"^character varying"), "varchar"),
    (re.compile(r"^character(\(\d+\))"), r"char\1"),
    (re.compile(r"^bit varying"), "varbit"),
    (re.compile(r"^(timestamp|time)(\(\d+\))? with time zone"), r"\1tz\2"),
    (re.compile(r"^(timestamp|time)(\(\d+\))? without time zone"), r"\1\2"),
)
#: The least oid of a type that a user of the database made.
FIRST_USER_OID = 16384


def printable(text: str, keep: str = "") -> str:
    r"""Return text with control characters other than ``keep`` escaped as in Python: ``\x1b``."""
    return _CONTROL.sub(lambda match: match[0] if match[0] in keep else ascii(match[0])[1:-1], text)


def bytes_words(number: int | float) -> str:
    """Return ``32.2 GB``, ``96 MB``, ``1.7 MB`` or ``84 B``, with a decimal for small figures."""
    size = float(abs(number))
    unit = 0
    while size >= 1023.5 and unit < len(UNITS) - 1:
        size /= 1024
        unit += 1
    precise = size < 10 or (unit >= 3 and size < 100)
    figure = f"{size:.1f}".removesuffix(".0") if precise and unit else f"{size:.0f}"
    return f"{'-' if number < 0 else ''}{figure}{NO_BREAK}{UNITS[unit]}"


def count_words(number: int) -> str:
    """Return ``2,318,644``."""
    return f"{number:,}"


def age_words(age: timedelta | float) -> str:
    """Return at most two units: ``9 h 12 min``, ``4 min 26 s``, ``41 s``; never below ``0 s``."""
    seconds = int(age.total_seconds() if isinstance(age, timedelta) else age)
    seconds = max(seconds, 0)
    for size, unit, small_size, small_unit in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= size:
            # From ten minutes on, seconds add nothing.
            small = 0 if unit == "min" and seconds >= 600 else seconds % size // small_size
            text = f"{seconds // size} {unit}" + (f" {small} {small_unit}" if small else "")
            return text.replace(" ", NO_BREAK)
    return f"{seconds}{NO_BREAK}s"


def day_second_words(moment: datetime) -> str:
    """Return ``2 Nov 09:14:02``."""
    return f"{moment.day} {moment:%b %H:%M:%S}"


def short_words(microseconds: float) -> str:
    """Return a delay as ``41 ms`` or ``1.2 s``, and from ten seconds on as an age."""
    if microseconds < 999_500:
        return f"{microseconds / 1000:.0f}{NO_BREAK}ms"
    if microseconds < 10_000_000:
        return f"{microseconds / 1_000_000:.1f}{NO_BREAK}s"
    return age_words(microseconds / 1_000_000)


def rate_words(per_second: float, unit: str = "tx") -> str:
    """Return a rate, of transactions by default: ``0.4 tx/s``, ``23 tx/s``, ``1,840 tx/s``."""
    figure = f"{per_second:.1f}" if 0 < per_second < 1 else f"{per_second:,.0f}"
    return f"{figure}{NO_BREAK}{unit}/s"


def plural(number: int, one: str, many: str | None = None) -> str:
    """Return ``1 slot`` or ``3 slots``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def shortened(text: str, limit: int) -> str:
    """Return a text of at most ``limit`` characters; where it was cut, the last one is ``…``."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def some_of(names: Sequence[str], limit: int = 10) -> str:
    """Return names for a sentence: the first ``limit``, then how many more there are."""
    listed = ", ".join(names[:limit])
    return f"{listed} and {len(names) - limit} more" if len(names) > limit else listed


def version_words(server_version: int | None) -> str:
    """Return ``PG 18.4`` for 180004, or ``version unknown``."""
    if not server_version:
        return "version unknown"
    return f"PG {server_version // 10000}.{server_version % 10000}"


def short_type(name: str, *, qualified: bool = False) -> str:
    """Return PostgreSQL's short spelling of ``format_type()``; ``qualified`` keeps ``public``."""
    for pattern, short in _SHORT_SPELLINGS:
        name, count = pattern.subn(short, name)
        if count:
            break
    return name if qualified else name.removeprefix("public.")
