"""Describe a transaction: the sentence that begins its page, and the facts of a drawer."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from replview.store.read.history import OPEN_STATES
from replview.store.read.rows import TransactionRow
from replview.text.formats import bytes_words, plural, short_words
from replview.ui.changes.cells import Block
from replview.ui.component_html import grade_kind

_CONTEXT_SHOWN = 4
#: Why a transaction in this state, or a change of it, cannot be undone.
NOT_UNDONE = {
    "receiving": "it is still being received",
    "streaming": "it is still open on the source",
    "prepared": "it is prepared and has not happened yet; ROLLBACK PREPARED rolls it back",
    "aborted": "it was aborted",
    "rolled back": "it was rolled back",
    "message": "a message changed no row",
    "snapshot": "a baseline changed nothing",
    "skipped": "its changes were not stored",
    "unknown": "it is unknown whether it was committed",
}
_GRADES = {
    "claimed": "Named by a message in this transaction. Any role could have sent it.",
    "stamped": "Stamped by our trigger on the source, with the session’s user, application "
    "and client address as the server knew them.",
    "perhaps": "Named by a message that may have been in a savepoint that was rolled back: the "
    "stream does not say.",
}


@dataclass(frozen=True, slots=True)
class Station:
    """A point on the time line from the first WAL record to the screen."""

    word: str
    detail: str
    #: True when the point is a WAL record (solid line); false for a later one.
    in_wal: bool = False


def _other_actors(names: Sequence[str | None]) -> str:
    """Return words about further actors: ``and 1 more, in part unknown:``."""
    number = sum(name is not None for name in names)
    parts = [f"and {number} more"] if number else []
    return ", ".join([*parts, "in part unknown:"] if None in names else parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The sentence, the time line and the facts of a transaction, for a drawer's heading."""

    #: The gid or xid; ``message`` outside any transaction.
    name: str
    #: The actor's name; None where unknown.
    actor: str | None
    #: ``and 1 more, in part unknown:``; empty without other actors.
    other_actors: str
    #: The names of all other actors.
    also: str
    grade_kind: str
    #: The verb: ``changed``.
    did: str
    #: ``4 rows``; empty without rows.
    rows: str
    tables: str
    #: The time when it ended, or was prepared; None where unknown or open.
    when: datetime | None
    #: True when it was aborted or rolled back, so that it has no effect.
    ended: bool
    open: bool
    stations: list[Station]
    context: str
    origin: str
    size: str
    #: ``4 changes`` that were rolled back to a savepoint; empty without.
    aborted: str
    total: str


def heading_of(row: TransactionRow) -> Heading:
    """Return the heading of a transaction."""
    rows = row.inserts + row.updates + row.deletes
    open_ = row.state in OPEN_STATES
    lost = row.state in ("aborted", "rolled back")
    return Heading(
        name=row.gid or ("message" if row.xid is None else str(row.xid)),
        actor=row.actor,
        other_actors=_other_actors(row.names[1:]),
        also=", ".join(row.others(row.actor)),
        grade_kind=grade_kind(row.actor_grade),
        did=_verb(row, rows, open_, lost),
        rows=_rows_text(row, rows),
        tables=plural(len(row.relations), "table"),
        when=row.ended_at if lost else row.commit_time or row.prepared_at,
        ended=lost,
        open=open_,
        stations=_stations(row),
        context=_context(row.context),
        origin=f"from {row.origin}" if row.origin else "none, written here",
        size="withheld" if row.shown_size_bytes is None else bytes_words(row.shown_size_bytes),
        aborted=plural(row.aborted_changes, "change") if row.aborted_changes else "",
        total=plural(row.changes, "change"),
    )


def _verb(row: TransactionRow, rows: int, open_: bool, lost: bool) -> str:
    if row.state == "message" or (row.messages and not rows and not row.truncates):
        return "sent"
    if lost:
        return "had changed"
    if row.truncates and not rows:
        return "truncated"
    return "is changing" if open_ and row.state != "prepared" else "changed"


def _rows_text(row: TransactionRow, rows: int) -> str:
    if rows:
        return plural(rows, "row")
    if row.truncates:
        return ""
    return plural(row.messages, "message") if row.messages else "no published row"


def _stations(row: TransactionRow) -> list[Station]:
    """Return first record, commit and store; the page adds the arrival on the screen."""
    stations = [Station("first record", row.first_lsn or "unknown", in_wal=True)]
    if row.prepared_at is not None:
        stations.append(Station("prepared", f"{row.prepared_at:%H:%M:%S}", in_wal=True))
    end = row.commit_time or row.ended_at
    if end is None:
        return stations
    end_name = row.state if row.state in ("aborted", "rolled back") else "committed"
    stations.append(Station(end_name, f"{end:%S}.{end.microsecond // 1000:03d}", in_wal=True))
    if row.stored_at is not None:
        after_us = (row.stored_at - end).total_seconds() * 1e6
        # The source's and replview's clocks may disagree; then no difference is shown.
        detail = f"+{short_words(after_us)}" if after_us >= 0 else "clocks differ"
        stations.append(Station("stored", detail))
    return stations


def flat_context(context: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    """Yield the members of a context, nested ones as ``stamp.application_name``.

    Keys that begin with ``$`` are the record's own, and are left out.
    """
    for key, value in (context or {}).items():
        if key[:1] == "$":
            continue
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", member) for inner, member in value.items())
        else:
            yield key, value


def _context(context: Mapping[str, Any] | None) -> str:
    pairs = [
        f"{key} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in flat_context(context)
    ]
    rest_text = f", {len(pairs) - _CONTEXT_SHOWN} more" if len(pairs) > _CONTEXT_SHOWN else ""
    return ", ".join(pairs[:_CONTEXT_SHOWN])[:400] + rest_text


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSentence:
    """The sentence that begins a transaction's page."""

    #: True when the sentence begins with the actor.
    names_actor: bool
    #: ``changed 4 rows in 3 tables``.
    did: str
    #: The rest: how it ended, what was rolled back, whether it can be undone.
    rest: str


def sentence_of(
    row: TransactionRow, blocks: Sequence[Block], *, whole: bool
) -> TransactionSentence:
    """Return the sentence; ``whole``: the blocks are all its changes that count."""
    if row.state == "snapshot":
        position = f" as of {row.commit_lsn}" if row.commit_lsn else ""
        return TransactionSentence(
            names_actor=False,
            did=f"A baseline read {plural(row.inserts, 'row')}{position}",
            rest="It changed nothing: it stores rows as they were before their first change.",
        )
    if row.state == "message":
        return TransactionSentence(
            names_actor=True,
            did="sent a message outside any transaction",
            rest="It takes effect even if the transaction that sent it rolled back.",
        )
    return TransactionSentence(
        names_actor=True, did=_did_text(row), rest=_effect_text(row, blocks, whole)
    )


def _did_text(row: TransactionRow) -> str:
    rows = row.inserts + row.updates + row.deletes
    tables = plural(len(row.relations), "table")
    verb = {
        "receiving": "is changing",
        "streaming": "is changing",
        "aborted": "had changed",
        "rolled back": "had changed",
    }.get(row.state, "changed")
    if row.state == "skipped":
        return "was skipped"
    if rows:
        return f"{verb} {plural(rows, 'row')} in {tables}"
    if row.truncates:
        return f"truncated {tables}"
    if row.messages:
        return f"sent {plural(row.messages, 'message')}"
    return f"{verb} no published row" + (" that counts" if row.aborted_changes else "")


def _effect_text(row: TransactionRow, blocks: Sequence[Block], whole: bool) -> str:
    by_state = {
        "receiving": "It is being received: it has no effect yet.",
        "streaming": "Still open on the source: it has no effect yet.",
        "prepared": "Prepared, neither committed nor rolled back: it has no effect yet.",
        "aborted": "It was aborted: it has no effect.",
        "rolled back": "ROLLBACK PREPARED ended it: it has no effect.",
        "skipped": "Its changes were not stored, by decision of a user; it keeps its position.",
        "unknown": "It was prepared in an incarnation of the slot that ended before it did: its "
        "end is unknown.",
    }
    if row.state in by_state:
        return by_state[row.state]
    rolled_back = "Nothing rolled back"
    if row.aborted_changes:
        rolled_back = f"{plural(row.aborted_changes, 'change')} rolled back to a savepoint"
    undo = _undo(blocks) if whole else ""
    return f"{rolled_back}; {undo}." if undo else f"{rolled_back}."


def _undo(blocks: Sequence[Block]) -> str:
    rows = [block for block in blocks if block.op in "IUDT" and not block.aborted]
    undoable = sum(not block.undo_problem for block in rows)
    if not rows:
        return ""
    if undoable == len(rows):
        return f"undo is possible for {'all ' if undoable > 1 else ''}{plural(undoable, 'row')}"
    if not undoable:
        return "undo is not possible: each change shows why"
    return f"undo is possible for {undoable:,} of {plural(len(rows), 'change')}"


def grade_words(row: TransactionRow) -> str:
    """Return a sentence about how the actor's name is known."""
    if not row.actor:
        return "This transaction names no actor."
    return _GRADES.get(row.actor_grade or "", "The evidence for this name was not recorded.")
