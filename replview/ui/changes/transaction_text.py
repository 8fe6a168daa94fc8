"""A transaction in a sentence and a few facts."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from replview.store.read.rows import TransactionRow
from replview.text.formats import bytes_words, plural, short_words

_CONTEXT_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Station:
    """A point on the line from the first record to the screen."""

    word: str
    detail: str
    #: WAL up to here (solid), or time after the commit.
    in_wal: bool = False


@dataclass(slots=True)
class Told:
    """What the drawer's head says."""

    name: str
    actor: str | None
    grade_kind: str
    did: str
    rows: str
    tables: str
    when: Any
    ended: bool
    open: bool
    stations: list[Station] = field(default_factory=list)
    context: str = ""
    origin: str = ""
    size: str = ""
    aborted: str = ""
    total: str = ""


def tell(row: TransactionRow, names: Mapping[int, tuple[str, str]]) -> Told:
    """The sentence, the line and the facts of one transaction."""
    rows = row.inserts + row.updates + row.deletes
    changes = rows + row.truncates + row.messages
    open_ = row.state in ("receiving", "streaming", "prepared")
    lost = row.state in ("aborted", "rolled back")
    return Told(
        name=row.gid or ("message" if row.xid is None else str(row.xid)),
        actor=row.actor,
        grade_kind={"claimed": "claim", "stamped": "fact"}.get(row.actor_grade or "", "unknown"),
        did=_did(row, rows, open_, lost),
        rows=_rows(row, rows),
        tables=plural(len(row.relations), "table"),
        when=row.ended_at if lost else row.commit_time or row.prepared_at,
        ended=lost,
        open=open_,
        stations=_stations(row, open_),
        context=_context(row.context),
        origin=f"from {row.origin}" if row.origin else "none, written here",
        size=bytes_words(row.size_bytes),
        aborted=plural(row.aborted_changes, "change") if row.aborted_changes else "",
        total=plural(changes - min(row.aborted_changes, changes), "change"),
    )


def _did(row: TransactionRow, rows: int, open_: bool, lost: bool) -> str:
    if row.state == "message" or (row.messages and not rows and not row.truncates):
        return "sent"
    if lost:
        return "had changed"
    if row.truncates and not rows:
        return "truncated"
    return "is changing" if open_ and row.state != "prepared" else "changed"


def _rows(row: TransactionRow, rows: int) -> str:
    if rows:
        return plural(max(0, rows - row.aborted_changes), "row")
    if row.truncates:
        return ""
    return plural(row.messages, "message") if row.messages else "no published row"


def _stations(row: TransactionRow, open_: bool) -> list[Station]:
    """First record, commit, stored; the page adds when it was on this screen."""
    stations = [Station("first record", row.first_lsn or "unknown", in_wal=True)]
    if row.prepared_at is not None:
        stations.append(Station("prepared", f"{row.prepared_at:%H:%M:%S}", in_wal=True))
    end = row.commit_time or row.ended_at
    if end is None:
        return stations
    word = {"aborted": "aborted", "rolled back": "rolled back"}.get(row.state, "committed")
    milliseconds = f"{end.microsecond // 1000:03d}"
    stations.append(Station(word, f"{end:%S}.{milliseconds}", in_wal=True))
    if row.stored_at is not None:
        after_us = (row.stored_at - end).total_seconds() * 1e6
        # Two clocks: the source's and ours. Where they disagree no difference is shown.
        detail = f"+{short_words(after_us)}" if after_us >= 0 else "clocks differ"
        stations.append(Station("stored", detail))
    return stations


def flat_context(context: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    """The members of a context, those of a stamp as ``stamp.application_name``; what begins with
    ``$`` is the record's own.
    """
    for key, value in (context or {}).items():
        if key[:1] == "$":
            continue
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", each) for inner, each in value.items())
        else:
            yield key, value


def _context(context: Mapping[str, Any] | None) -> str:
    pairs = [
        f"{key} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in flat_context(context)
    ]
    more = f", {len(pairs) - _CONTEXT_SHOWN} more" if len(pairs) > _CONTEXT_SHOWN else ""
    return ", ".join(pairs[:_CONTEXT_SHOWN])[:400] + more
