"""Numbers as words: bytes with units, counts, ages, rates; types as people write them. What is
unknown stays None, never zero.
"""

import re
from datetime import datetime, timedelta

#: PostgreSQL's own spelling and step: its ``64GB`` is 64 times 1024 cubed.
UNITS = ("B", "kB", "MB", "GB", "TB", "PB")

NO_BREAK = "\u00a0"
#: What steers a terminal, begins a line or turns the order of what follows.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_SHORT = (
    (re.compile(r"^character varying"), "varchar"),
    (re.compile(r"^character(\(\d+\))"), r"char\1"),
    (re.compile(r"^bit varying"), "varbit"),
    (re.compile(r"^(timestamp|time)(\(\d+\))? with time zone"), r"\1tz\2"),
    (re.compile(r"^(timestamp|time)(\(\d+\))? without time zone"), r"\1\2"),
)
#: Types made by the database's users have at least this oid.
FIRST_USER_OID = 16384


def printable(text: str, keep: str = "") -> str:
    """Control characters other than ``keep`` as Python escapes them: ``\\x1b``."""
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], text)


def bytes_words(number: int | float) -> str:
    """``32.2 GB``, ``96 MB``, ``1.7 MB``, ``84 B``: one decimal where it says something."""
    size = float(abs(number))
    unit = 0
    while size >= 1023.5 and unit < len(UNITS) - 1:
        size /= 1024
        unit += 1
    precise = size < 10 or (unit >= 3 and size < 100)
    figure = f"{size:.1f}".removesuffix(".0") if precise and unit else f"{size:.0f}"
    return f"{'-' if number < 0 else ''}{figure}{NO_BREAK}{UNITS[unit]}"


def count_words(number: int) -> str:
    """``2,318,644``."""
    return f"{number:,}"


def age_words(age: timedelta | float) -> str:
    """Two units at most: ``9 h 12 min``, ``4 min 26 s``, ``41 s``; below a second ``0 s``."""
    seconds = int(age.total_seconds() if isinstance(age, timedelta) else age)
    seconds = max(seconds, 0)
    for size, unit, small_size, small_unit in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= size:
            # From ten minutes on, seconds say nothing.
            small = 0 if unit == "min" and seconds >= 600 else seconds % size // small_size
            words = f"{seconds // size} {unit}" + (f" {small} {small_unit}" if small else "")
            return words.replace(" ", NO_BREAK)
    return f"{seconds}{NO_BREAK}s"


def day_second_words(moment: datetime) -> str:
    """``2 Nov 09:14:02``."""
    return f"{moment.day} {moment:%b %H:%M:%S}"


def short_words(microseconds: float) -> str:
    """A delay: ``41 ms``, ``1.2 s``, then as an age."""
    if microseconds < 999_500:
        return f"{microseconds / 1000:.0f}{NO_BREAK}ms"
    if microseconds < 10_000_000:
        return f"{microseconds / 1_000_000:.1f}{NO_BREAK}s"
    return age_words(microseconds / 1_000_000)


def rate_words(per_second: float) -> str:
    """Transactions a second: ``0.4 tx/s``, ``23 tx/s``, ``1,840 tx/s``."""
    figure = f"{per_second:.1f}" if 0 < per_second < 1 else f"{per_second:,.0f}"
    return f"{figure}{NO_BREAK}tx/s"


def plural(number: int, one: str, many: str | None = None) -> str:
    """``1 slot``, ``3 slots``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def version_words(server_version: int | None) -> str:
    """``PG 18.4`` from 180004; unknown says so."""
    if not server_version:
        return "version unknown"
    return f"PG {server_version // 10000}.{server_version % 10000}"


def short_type(name: str, *, qualified: bool = False) -> str:
    """PostgreSQL's short spelling of ``format_type()``; ``qualified`` keeps ``public``."""
    for pattern, short in _SHORT:
        name, found = pattern.subn(short, name)
        if found:
            break
    return name if qualified else name.removeprefix("public.")
