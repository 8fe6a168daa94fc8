"""Marked values of a change, which are not plain text: their meaning, and comparisons.

See ``store.models.history.Change`` for the marked forms. Queries for pages make one more, a long
value cut: ``{"$cut": characters, "$head": beginning, "$md5": of the whole}``.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from psycopg import sql

from replview.store.read.rows import ChangeRow

#: Description of each mark whose value cannot be written as text.
MARKS = {
    "$masked": "masked",
    "$aside": "too long to be kept with its change",
    "$too_large": "too large to be kept",
    "$binary": "in binary form and was not decoded",
    "$bytes": "bytes that are not text in the stream's encoding",
}
#: Description of a column whose value before an update is unknown, as its table was altered.
ALTERED = "changed by ALTER TABLE or by this update"


_CUT_IMAGE = sql.SQL("""
    CASE WHEN coalesce(pg_column_size({image}), 0) < {look_into} THEN {image} ELSE (
    SELECT jsonb_object_agg(e.key, CASE
        WHEN jsonb_typeof(e.value) = 'string' AND length({value}) > {characters}
        THEN jsonb_build_object('$cut', length({value}), '$head', left({value}, {head}),
                                '$md5', md5({value}))
        ELSE e.value END) FROM jsonb_each({image}) e) END
""")


def cut_sql(image: sql.Identifier, *, look_into: int, characters: int, head: int) -> sql.Composed:
    """Return SQL for a row's JSON with long values cut to ``head`` characters.

    Rows that take less than ``look_into`` bytes stay as they are.
    """
    value = sql.SQL("e.value #>> '{}'")
    return _CUT_IMAGE.format(
        image=image, look_into=look_into, value=value, characters=characters, head=head
    )


def mark_of(value: object) -> str:
    """Return why a value cannot be written as text; empty where it can."""
    if not isinstance(value, Mapping) or "$cut" in value:
        return ""
    if "$erased" in value:
        return erased_words(value)
    return next(
        (description for mark, description in MARKS.items() if mark in value), "in an unknown form"
    )


def erased_words(value: Mapping[str, object]) -> str:
    """Return a description such as ``erased on 2026-11-22``."""
    return f"erased on {value['$on']}" if value.get("$on") else "erased"


def same_value(before: object, after: object) -> bool | None:
    """Return whether two stored values are equal; None: unknown."""
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


def changed_nothing(change: ChangeRow, image: Mapping[str, Any] | None) -> bool:
    """Return whether an update is known to have left every value as it was.

    ``image`` is the derived row before it; False where some value is unknown.
    """
    before, new = {**(image or {}), **(change.old or {})}, change.new or {}
    return (
        change.op == "U"
        and not change.hidden
        and all(
            same_value(before[name], value)
            if name in before
            # The server would have sent a key that changed.
            else name in change.key_columns
            for name, value in new.items()
        )
    )


def _digest(value: object) -> tuple[int, str] | None:
    """Return the length and MD5 of a value, cut or whole; None for any other."""
    if isinstance(value, str):
        return len(value), hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()
    if isinstance(value, Mapping) and "$cut" in value:
        return int(value["$cut"]), str(value["$md5"])
    return None
