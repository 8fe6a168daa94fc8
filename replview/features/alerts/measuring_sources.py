"""What is measured of sources: whether they answer, and what holds them back."""

import datetime as dt
from collections.abc import Iterator
from typing import Any

from replview.features.alerts.measured import Measured
from replview.features.alerts.snapshot import Sight
from replview.store.models import Source, SourceLook


def prepared_age(sight: Sight) -> Iterator[Measured]:
    """Seconds since the oldest prepared transaction was prepared; 0: there is none."""
    for source in sight.servers:
        rows = _told(sight, source, "prepared")
        ages = [(_age(sight, row.get("prepared_at")), row) for row in rows or []]
        known = [(age, row) for age, row in ages if age is not None]
        if not known:
            yield _measured(source, None if rows is None or rows else 0.0)
            continue
        age, oldest = max(known, key=lambda pair: pair[0])
        detail = {name: oldest.get(name) for name in ("gid", "owner", "database")}
        yield _measured(source, age, detail={**detail, "prepared": len(rows or [])})


def long_transaction(sight: Sight) -> Iterator[Measured]:
    """Seconds since the oldest running transaction began; 0: there is none.

    A role that may not see others' sessions is not told when they began: then only those it was
    told of count, and none of them tells that all is well.
    """
    for source in sight.servers:
        rows = _told(sight, source, "running")
        ages = [(_age(sight, row.get("xact_started_at")), row) for row in rows or []]
        known = [(age, row) for age, row in ages if age is not None]
        if not known:
            yield _measured(source, None if rows is None or rows else 0.0)
            continue
        age, oldest = max(known, key=lambda pair: pair[0])
        names = ("pid", "role", "application_name", "database", "state")
        yield _measured(source, age, detail={name: oldest.get(name) for name in names})


def source_unreachable(sight: Sight) -> Iterator[Measured]:
    """Seconds since a source that does not answer last did; 0: it answers."""
    silent = [source.pk for source in sight.sources if source.problem_code]
    reached = sight.reached_at(silent) if silent else {}
    for source in sight.sources:
        # Where nobody looks any more, nothing is known.
        value = 0.0 if sight.fresh(source.checked_at) else None
        if source.problem_code:
            since = reached.get(source.pk, source.created_at)
            value = max((sight.now - since).total_seconds(), 0.0)
        yield _measured(source, value, detail={"problem": source.problem_code})


def _told(sight: Sight, source: Source, name: str) -> list[dict[str, Any]] | None:
    look: SourceLook | None = sight.looks.get(source.pk)
    if look is None or not sight.fresh(look.looked_at):
        return None
    rows: list[dict[str, Any]] | None = getattr(look, name)
    return rows


def _age(sight: Sight, moment: str | None) -> float | None:
    if not moment:
        return None
    return max((sight.now - dt.datetime.fromisoformat(moment)).total_seconds(), 0.0)


def _measured(source: Source, value: float | None, **more: Any) -> Measured:
    return Measured(
        subject=f"source:{source.pk}", value=value, name=source.name, source_id=source.pk, **more
    )
