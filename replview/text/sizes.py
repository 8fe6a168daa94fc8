"""Sizes that people type: the parser, and the text that it reads back exactly.

Sentences on pages and in messages use ``bytes_words`` instead, which rounds.
"""

import re
from decimal import Decimal

from replview.text.formats import UNITS

_SIZE = re.compile(r"\s*([0-9]{1,19}(?:\.[0-9]{1,6})?)\s*([A-Za-z]+)\s*", re.ASCII)
_POWERS = {unit.lower(): power for power, unit in enumerate(UNITS)}


def parse_size(text: str) -> int:
    """Return ``10GB`` in bytes, by PostgreSQL's units. Raises ``ValueError``."""
    match = _SIZE.fullmatch(text)
    if match is None or match[2].lower() not in _POWERS:
        raise ValueError(f"{text.strip()[:40]!r} is no size: write 500MB, 10GB or 1.5TB")
    return int(Decimal(match[1]) * 1024 ** _POWERS[match[2].lower()])


def parse_limit(text: str) -> int | None:
    """Return a limit in bytes; None for ``none``. Raises ``ValueError``."""
    if text.strip().lower() == "none":
        return None
    size = parse_size(text)
    if not 0 < size < 1 << 62:
        raise ValueError("a limit is a size above zero and below 4096PB, or none")
    return size


def limit_text(size: int | None) -> str:
    """Return a limit in the form that ``parse_limit`` reads."""
    return "none" if size is None else exact_size(size)


def exact_size(size: int) -> str:
    """Return the shortest text that ``parse_size`` reads as this size: ``10GB``, ``1.5GB``."""
    rounded_texts = (
        f"{size / 1024**power:.3f}".rstrip("0").rstrip(".") + UNITS[power]
        for power in range(len(UNITS) - 1, 0, -1)
        if size >= 1024**power
    )
    exact_texts = [text for text in rounded_texts if parse_size(text) == size]
    return min([*exact_texts, f"{size}B"], key=len)
