"""Values of a change that are not plain text: what is known of them, and whether two are the same.

See ``models.history.Change`` for the marked forms. One more is made on reading for a page: a long
value cut, ``{"$cut": characters, "$head": beginning, "$md5": of the whole}``.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

#: What a marked value means, where it cannot be written as text.
MARKS = {
    "$masked": "masked",
    "$aside": "too long to be kept with its change",
    "$binary": "in binary form and was not decoded",
    "$bytes": "bytes that are not text in the stream's encoding",
}


def mark_of(value: Any) -> str:
    """Why a value cannot be written as text; empty where it can."""
    if not isinstance(value, Mapping) or "$cut" in value:
        return ""
    if "$erased" in value:
        return erased_words(value)
    return next((words for mark, words in MARKS.items() if mark in value), "in an unknown form")


def erased_words(value: Mapping[str, Any]) -> str:
    """``erased on 2026-11-22``."""
    day = value.get("$on")
    return f"erased on {day}" if day else "erased"


def same_value(before: Any, after: Any) -> bool | None:
    """Whether two stored values are one; None where that cannot be told."""
    marked = [value for value in (before, after) if isinstance(value, Mapping)]
    if not marked:
        return bool(before == after)
    if any("$erased" in value for value in marked):
        return None
    if before is None or after is None:
        return False
    if any("$masked" in value for value in marked):
        return None
    if any("$aside" in value for value in marked):
        return None if before == after else False
    if any("$cut" in value for value in marked):
        return _digest(before) == _digest(after)
    return bool(before == after)


def _digest(value: Any) -> tuple[int, str] | None:
    """Length and MD5 of a value, cut or whole."""
    if isinstance(value, str):
        return len(value), hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()
    if isinstance(value, Mapping) and "$cut" in value:
        return int(value["$cut"]), str(value["$md5"])
    return None
