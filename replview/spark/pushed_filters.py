"""Filters of Spark as a narrower slice; what cannot be told in one is left to Spark."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from replview.parquet.slices import OPERATIONS, Slice

_LSN = "_commit_version"
#: Of untyped records: their place in history.
_PLACE = "commit_seq"
_MOST = (1 << 63) - 1
#: ``_change_type`` → the operations that give such rows.
_OPERATIONS = {
    "insert": ("insert", "snapshot"), "update_preimage": ("update",),
    "update_postimage": ("update",), "delete": ("delete",),
}  # fmt: skip


def narrowed(part: Slice, filters: Iterable[Filter], *, typed: bool) -> Slice:
    """A slice that holds every row for which all of these hold."""
    for each in filters:
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        if len(attribute) == 1:
            part = _narrowed(part, each, str(attribute[0]).lower(), typed=typed)
    return part


def _narrowed(part: Slice, each: Filter, name: str, *, typed: bool) -> Slice:
    value = getattr(each, "value", None)
    if name == _LSN and isinstance(value, int):
        return _by_lsn(part, each, value)
    if name == ("_commit_timestamp" if typed else "commit_time"):
        return _by_time(part, each, value)
    if name == _PLACE and isinstance(value, int) and not typed:
        return _by_place(part, each, value)
    if name == ("_xid" if typed else "xid") and isinstance(each, EqualTo):
        # One filter alone; and what has such a gid is taken along.
        free = isinstance(value, int) and not part.narrowed.id
        return _narrowed_by(part, id=str(value)) if free else part
    if name == ("_actor" if typed else "actor") and isinstance(each, IsNull):
        return _narrowed_by(part, no_actor=True)
    values = value if isinstance(each, In) else (value,) if isinstance(each, EqualTo) else ()
    texts = [text for text in values or () if isinstance(text, str)]
    if not texts:
        return part
    if name == ("_actor" if typed else "actor"):
        chosen = [text for text in texts if not part.actors or text in part.actors]
        return replace(part, actors=tuple(chosen)) if chosen else part
    if name == ("_change_type" if typed else "op"):
        known = _OPERATIONS if typed else {word: (word,) for word in OPERATIONS}
        wanted = {word for text in texts for word in known.get(text, ())}
        of = [word for word in part.operations or OPERATIONS if word in wanted]
        return replace(part, operations=tuple(of)) if of else part
    return part


def _narrowed_by(part: Slice, **more: Any) -> Slice:
    return replace(part, narrowed=replace(part.narrowed, **more))


def _by_place(part: Slice, each: Filter, value: int) -> Slice:
    after, through = part.after_seq, part.through_seq
    if isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
        after = max(after, min(value - (not isinstance(each, GreaterThan)), through))
    if isinstance(each, EqualTo | LessThan | LessThanOrEqual):
        through = max(after, min(through, value - isinstance(each, LessThan)))
    return replace(part, after_seq=after, through_seq=through)


def _by_lsn(part: Slice, each: Filter, value: int) -> Slice:
    low, high = part.from_lsn, part.to_lsn
    if isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
        least = value + isinstance(each, GreaterThan)
        low = least if low is None else max(low, least)
    if isinstance(each, EqualTo | LessThan | LessThanOrEqual):
        most = value - isinstance(each, LessThan)
        high = most if high is None else min(high, most)
    return replace(
        part,
        from_lsn=None if low is None else min(max(low, 0), _MOST),
        to_lsn=None if high is None else min(max(high, 0), _MOST),
    )


def _by_time(part: Slice, each: Filter, value: Any) -> Slice:
    if not isinstance(value, dt.datetime) or value.tzinfo is None:
        return part
    since, until = part.since, part.until
    if isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
        since = value if since is None else max(since, value)
    if isinstance(each, EqualTo | LessThan | LessThanOrEqual):
        try:
            after = value + dt.timedelta(microseconds=1)
        except OverflowError:
            return part
        until = after if until is None else min(until, after)
    return replace(part, since=since, until=until)
