"""Every change of one row, newest first, under all keys it had and in all shapes of its table."""

import base64
import binascii
import datetime as dt
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from replview.store.read.changes.values import same_value
from replview.store.read.row_history.backward_scan import BackwardScan
from replview.store.read.row_history.key_chain import KeyChain
from replview.store.read.row_history.keys import table_of
from replview.store.read.row_history.replay import LAST, Entry, Known, Replay
from replview.store.read.row_history.shapes import Version
from replview.store.read.row_history.sought_row import END, At, IncarnationFacts
from replview.store.read.rows import OPEN_END, Slot, Step, signed_hash
from replview.store.read.seen import CUT_COLUMNS, step_of
from replview.store.read.session import ReadSession
from replview.text.problem import CodedProblem

#: Characters; a longer one is none of ours.
_LONGEST = 20_000


class CursorProblem(CodedProblem, ValueError):
    """What was given as a cursor is none, or none of this row."""

    code_of_all = "bad_cursor"
    status = 400


def cursor_text(scan: BackwardScan, step: Step, chains: Sequence[KeyChain]) -> str:
    """Where the next page begins, and under which former keys."""
    more = [[s.relation_id, s.key, s.incarnation.number, *_raw(s, step), s.below] for s in chains]
    raw = [step.lsn if step.op != "S" else step.place[0], step.seq if step.op != "S" else 0]
    document = orjson.dumps([scan.at(step), raw, more])
    return base64.urlsafe_b64encode(document).decode().rstrip("=")


def _raw(chain: KeyChain, step: Step) -> tuple[int, int]:
    """A chain in hand was read further than it was shown: begin at the change shown last."""
    if chain.incarnation.id == step.incarnation_id and chain.below is not None:
        place = min((step.place[2], step.place[3]), (chain.below[3], chain.below[4]))
        return place if step.op != "S" else (min(step.place[0], chain.below[3]), 1 << 30)
    return chain.lsn, chain.seq


def parse_cursor(
    cursor: str | None, scan: BackwardScan
) -> tuple[At, tuple[int, int] | None, list[KeyChain]]:
    """What a cursor says; without one, the newest change. Raises ``CursorProblem``."""
    if not cursor:
        return END, None, []
    if len(cursor) > _LONGEST:
        raise CursorProblem("too long for a cursor")
    by_number = {each.number: each for each in scan.incarnations}
    try:
        document = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        at, raw, more = document
        chains = []
        for relation_id, key, number, lsn, seq, below in more:
            chain = KeyChain(
                int(relation_id),
                tuple(key),
                signed_hash(key),
                by_number[number],
                int(lsn),
                int(seq),
            )
            chain.below, chain.one_row = _place(below), True
            chains.append(chain)
        return _place(at), (_number(raw[0]), int(raw[1]) % (1 << 31)), chains
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, binascii.Error):
        raise CursorProblem("not understood as a cursor") from None


def _place(values: Any) -> At:
    incarnation, commit, real, lsn, seq = (_number(value) for value in values)
    return incarnation, commit, real, lsn, seq


def _number(value: Any) -> int:
    number = int(value)
    if not 0 <= number <= OPEN_END:
        raise ValueError("not a place")
    return number


#: Changes looked at beyond a page, so that its oldest ones find what was before them.
LOOK_BACK = 20
#: Changes looked at for one filtered page.
_SEARCHED = 2000

_STEPS_BY_ID = f"""
    SELECT {CUT_COLUMNS} FROM unnest(%s::bigint[], %s::int[]) AS w (transaction_id, seq)
    JOIN change c ON c.transaction_id = w.transaction_id AND c.seq = w.seq
    JOIN transaction t ON t.id = c.transaction_id
"""  # noqa: S608 (nothing but the store's own columns)


@dataclass(frozen=True, slots=True)
class Mark:
    """Something in the order of things that is no change of the row."""

    #: ``schema``, ``gap``, ``failover``.
    kind: str
    incarnation: IncarnationFacts | None = None
    #: Of a schema change: the shapes before and after it.
    former: Version | None = None
    version: Version | None = None


@dataclass(slots=True)
class RowHistory:
    """A page of a row's history."""

    scan: BackwardScan
    #: Newest first.
    entries: list[Entry] = field(default_factory=list)
    #: The same with what stands between them.
    items: list[Entry | Mark] = field(default_factory=list)
    #: Where older ones begin; None where there are none.
    older: str | None = None
    #: The whole history is on this page.
    complete: bool = False
    #: Commit time of the oldest change looked at, where a filter left some out.
    searched_back_to: dt.datetime | None = None


def row_history(
    session: ReadSession,
    slot: Slot,
    relation_id: int,
    key: Mapping[str, str | None],
    *,
    cursor: str | None = None,
    limit: int = 50,
    actor: str | None = None,
    column: str | None = None,
    budget_seconds: float = 1.0,
) -> RowHistory:
    """One page of a row's history; ``actor`` empty: nobody was named. Raises ``LookupError`` where
    the slot has no such table, ``CursorProblem`` where ``cursor`` is none of ours.
    """
    table = table_of(session, slot, relation_id)
    if table is None:
        raise LookupError(f"relation {relation_id} is not of slot {slot}")
    scan = BackwardScan(session, slot, table, table.hashes(key))
    return history_of(
        scan, cursor=cursor, limit=limit, actor=actor, column=column, budget_seconds=budget_seconds
    )


def history_of(
    scan: BackwardScan,
    *,
    cursor: str | None = None,
    limit: int = 50,
    actor: str | None = None,
    column: str | None = None,
    budget_seconds: float = 1.0,
) -> RowHistory:
    """A page of the scan's row; see ``row_history``."""
    before, raw, chains = parse_cursor(cursor, scan)
    filtered = actor is not None or column is not None
    wanted = _SEARCHED if filtered else limit
    deadline = time.monotonic() + budget_seconds
    steps: list[Step] = []
    left: list[tuple[KeyChain, ...]] = []
    ended = True
    for step in scan.back(before, raw, chains=chains):
        steps.append(step)
        left.append(scan.open_chains)
        late = filtered and len(steps) > LOOK_BACK and time.monotonic() > deadline
        if len(steps) >= wanted + LOOK_BACK or late:
            ended = False
            break
    entries = _entries(scan, steps)
    if cursor is None:
        scan.newest = steps
    looked_at = len(steps) if ended else max(len(steps) - LOOK_BACK, 0)
    page = RowHistory(scan)
    last = _take_matching(page, entries[:looked_at], limit, actor, column)
    if last < len(steps):
        page.older = cursor_text(scan, steps[last - 1], left[last - 1])
        page.searched_back_to = steps[last - 1].commit_time if filtered else None
    page.complete = cursor is None and page.older is None and not filtered
    _arrange(page, first=cursor is None, filtered=filtered)
    return page


def _take_matching(
    page: RowHistory, entries: Sequence[Entry], limit: int, actor: str | None, column: str | None
) -> int:
    """Fill the page up to its limit; returns how many of the entries were looked at."""
    last = 0
    for entry in entries:
        last += 1
        if _matches(entry, actor, column, page.scan.table.key_columns):
            page.entries.append(entry)
        if len(page.entries) == limit:
            break
    return last


def _entries(scan: BackwardScan, steps: Sequence[Step]) -> list[Entry]:
    """Each change with the row before and after it, newest first, truncations among them."""
    entries = Replay(scan, scan.breaks(steps)).apply_all(reversed(steps))
    entries.reverse()
    return entries


def _matches(
    entry: Entry, actor: str | None, column: str | None, key_columns: Sequence[str]
) -> bool:
    if actor is not None and (entry.step.actor or "") != actor:
        return False
    return column is None or column in changed_columns(entry, key_columns)


def changed_columns(entry: Entry, key_columns: Sequence[str] = ()) -> list[str]:
    """The columns a change set to another value, or may have: what it was before is unknown."""
    step = entry.step
    if step.op in ("D", "T"):
        return list(entry.before.values)
    sent = step.new or {}
    if step.op in ("I", "S"):
        return [name for name, value in sent.items() if value is not None]
    before = entry.before.values
    # A key that had changed would have been sent.
    same = () if entry.before_kind in ("sent", "derived") else key_columns
    return [
        name
        for name, value in sent.items()
        if (same_value(before[name], value) is not True if name in before else name not in same)
    ]


def _arrange(page: RowHistory, *, first: bool, filtered: bool) -> None:
    """Put truncations, schema changes and gaps where they belong."""
    if not filtered:
        page.entries = _with_truncations(page)
    items: list[Entry | Mark] = []
    scan = page.scan
    newer: Step | None = None
    for entry in page.entries:
        if newer is not None or first:
            items += _marks_between(scan, entry.step, newer)
        items.append(entry)
        newer = entry.step
    if page.older is None and newer is not None and page.entries[-1].step.op != "I":
        number = scan.numbers.get(newer.incarnation_id, 1)
        items += _gaps(scan, 0, number)
    page.items = items


def _marks_between(scan: BackwardScan, older: Step, newer: Step | None) -> list[Mark]:
    """Newest first. ``newer`` None: up to now."""
    from_number = scan.numbers.get(older.incarnation_id, 0)
    to_number = scan.incarnations[0].number if newer is None else scan.numbers[newer.incarnation_id]
    versions = scan.table.shapes.versions
    former = versions.get(older.version_id)
    version = scan.table.version if newer is None else versions.get(newer.version_id)
    marks = _gaps(scan, from_number, to_number)
    if (
        former is not None
        and version is not None
        and former.relation_id == version.relation_id
        and former.id != version.id
    ):
        marks.insert(0, Mark("schema", former=former, version=version))
    return marks


def _gaps(scan: BackwardScan, after: int, up_to: int) -> list[Mark]:
    """Where incarnations of the slot began; an incarnation that is the first leaves no gap."""
    return [
        Mark("failover" if each.seamless else "gap", incarnation=each)
        for each in scan.incarnations
        if max(after, 1) < each.number <= up_to
    ]


def _with_truncations(page: RowHistory) -> list[Entry]:
    """The truncations that took the row away, each where it happened."""
    breaks, found = page.scan.breaks([entry.step for entry in page.entries]), {}
    newer: Entry | None = None
    for entry in page.entries:
        step = entry.step
        same = newer is not None and newer.step.incarnation_id == step.incarnation_id
        until = newer.step.place if same and newer is not None else LAST
        place = breaks.truncated(step.relation_id, step.incarnation_id, step.place, until)
        if entry.after.exists and place is not None:
            cut = next(t for t in breaks.truncations if t.place == place)
            found[cut.transaction_id, cut.seq] = entry
        newer = entry
    if not found:
        return page.entries
    ids = [list(each) for each in zip(*found, strict=True)]
    for row in page.scan.session.prepared_rows(_STEPS_BY_ID, ids):
        step = step_of(row, page.scan.session.visibility)
        of = found[step.transaction_id, step.seq]
        after = Known(False, last=step, why="truncated")
        page.entries.append(Entry(step, of.after, after, "derived", of.key_after, None))
    return sorted(page.entries, key=lambda entry: page.scan.at(entry.step), reverse=True)
