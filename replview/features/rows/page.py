"""The content of a row's page: its changes, the strip above them, and the row as of a moment."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from replview.access.visibility import reading_session
from replview.features.rows.as_of_page import AsOf, read_as_of
from replview.features.rows.text import ChangeLine, RowSentence, line_of, sentence_of
from replview.store.fields import LSN
from replview.store.models import Slot
from replview.store.read.changes.of_transaction import changes_of
from replview.store.read.changes.values import mark_of
from replview.store.read.coverage import Coverage, coverage_of
from replview.store.read.row_history.before_images import BeforeImage
from replview.store.read.row_history.events import change_name
from replview.store.read.row_history.finding import RowFinder, TracedRow
from replview.store.read.row_history.history import (
    CursorProblem,
    HistoryMark,
    RowHistory,
    history_of,
)
from replview.store.read.row_history.replay import HistoryEntry
from replview.store.read.row_history.shapes import Version
from replview.store.read.rows import ChangeRow
from replview.text.addresses import relation_url
from replview.ui.changes.cells import Block
from replview.ui.changes.change_blocks import blocks_of
from replview.ui.params import Params
from replview.ui.row_start import Start
from replview.ui.versions import shape_of, summary

#: The strip's right end in percent; the rest stays free, so that the last change is visible.
_END = 99.0
_BEGIN = 1.0
#: Width in percent of the strip before a break in its line.
_BREAK = 8.0
#: Changes on a page.
PAGE_CHANGES = 50
#: Rows of the same key that are listed at most.
_MOST_ROWS = 20
_KEPT = ("as_of", "before", "column", "cursor")
#: Words for how a row got its key, and how it lost it, by the kinds of a span.
_BEGUN = {
    "insert": "inserted", "moved": "moved here from another key", "snapshot": "read by a baseline",
}  # fmt: skip
_ENDED = {
    "delete": "deleted", "moved": "moved to another key", "truncated": "truncated",
    "lost": "later changes are not recorded",
    "table": "another table took the name after its last change",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Strip:
    """The strip of a row's history; places are in percent of its width."""

    begins: dt.datetime | None
    #: True if the record begins long before the first change, so that the line is broken.
    broken: bool
    ticks: tuple[tuple[float, str], ...]
    #: ``(x, width)`` of each gap, and in ``gap_at`` the beginning of the first one.
    gaps: tuple[tuple[float, float], ...]
    gap_at: dt.datetime | None
    as_of: float | None


def strip_of(
    history: RowHistory, coverage: Coverage, as_of: dt.datetime | None, now: dt.datetime
) -> Strip:
    """Return the strip for a page of history, from its oldest change to now."""
    times = [e.step.commit_time for e in history.entries if e.step.commit_time is not None]
    known = coverage.recorded_since
    times += [as_of] if as_of and (not known or as_of > known) else []
    oldest = min(times, default=now)
    margin = max((now - oldest) * 0.06, dt.timedelta(seconds=1))
    begins = oldest - margin
    broken = known is not None and known < begins - margin
    if known is not None and not broken:
        begins = known
    low = _BREAK if broken else _BEGIN
    span = max((now - begins).total_seconds(), 0.001)

    def place(moment: dt.datetime) -> float:
        share = min(max((moment - begins).total_seconds() / span, 0.0), 1.0)
        return round(low + share * (_END - low), 2)

    holes = [gap for gap in coverage.gaps if gap.is_time and gap.to_time >= begins]
    ends = [(place(gap.from_time or begins), place(gap.to_time)) for gap in holes]
    first = min(holes, key=lambda gap: gap.to_time, default=None)
    steps = [entry.step for entry in history.entries]
    return Strip(
        begins=known,
        broken=broken,
        ticks=tuple((place(s.commit_time), s.op) for s in steps if s.commit_time is not None),
        gaps=tuple((left, round(max(right - left, 0.8), 2)) for left, right in ends),
        gap_at=first.from_time or first.to_time if first else None,
        as_of=None if as_of is None else place(as_of),
    )


@dataclass(slots=True)
class RowLine:
    """A line of the list: a change, or a marker between two changes."""

    #: ``change``, ``schema``, ``gap``, ``failover``, ``lapse``.
    kind: str
    entry: HistoryEntry | None = None
    change: ChangeLine | None = None
    version: int | None = None
    #: Address that opens the line, and in ``block`` the change in full if it is open.
    open_url: str = ""
    block: Block | None = None
    #: The marker's data.
    mark: HistoryMark | None = None
    words: str = ""
    url: str = ""
    from_time: dt.datetime | None = None
    at: dt.datetime | None = None

    @property
    def name(self) -> str:
        """Return the change's identifier on the page, such as ``4711-3``."""
        step = self.entry.step if self.entry else None
        return f"{step.transaction_id}-{step.seq}" if step else ""


@dataclass(frozen=True, slots=True)
class RowOfKey:
    """One of the rows that had the key: the span of time, and how it began and ended."""

    url: str
    is_shown: bool
    begun: str
    since: dt.datetime | None
    ended: str
    until: dt.datetime | None
    changes: int


@dataclass(slots=True)
class RowPage:
    """The content of a row's page."""

    history: RowHistory
    sentence: RowSentence
    lines: list[RowLine]
    strip: Strip
    as_of: AsOf
    coverage: Coverage
    #: All rows that had the key, newest first; empty if it is only one.
    rows: list[RowOfKey] = field(default_factory=list)
    older_url: str = ""
    newest_url: str = ""
    #: The row's address, without cursor, moment and filters.
    row_url: str = ""
    column: str = ""
    actor: str | None = None
    columns: list[tuple[str, str, bool]] = field(default_factory=list)
    actors: list[tuple[str, str, bool]] = field(default_factory=list)
    relation_url: str = ""
    #: Parameters that a form must keep.
    kept: list[tuple[str, str]] = field(default_factory=list)
    clear_url: str = ""
    any_column_url: str = ""
    any_actor_url: str = ""
    #: Addresses of the row as of other moments.
    before_url: str = ""
    yesterday_url: str = ""
    now_url: str = ""

    @property
    def rows_words(self) -> str:
        """Return the number of rows in words: ``3 rows``, or ``3 or more rows``."""
        finder = self.history.finder
        more = finder.limited or len(finder.spans) > len(self.rows)
        return f"{len(self.rows)}{' or more' if more else ''} rows"

    @property
    def archive_url(self) -> str:
        """Return the archive's address, if it may have older changes than the store; else empty."""
        archive, begins = self.coverage.archive, self.coverage.recorded_since
        if self.older_url or self.begins_with_insert or archive is None or archive.since is None:
            return ""
        if begins is not None and archive.since >= begins:
            return ""
        return f"{reverse('archive-row')}?{self.download_query}"

    @property
    def download_query(self) -> str:
        """Return the query of the row's download, which has all changes, whatever the filters."""
        return self.row_url.partition("?")[2]

    @property
    def begins_with_insert(self) -> bool:
        """Return whether the oldest change inserted the row."""
        return bool(self.history.entries) and self.history.entries[-1].step.op == "I"


class _PageAddress:
    """The page's own address, whose parameters can be changed."""

    def __init__(self, slot: Slot, start: Start, words: Mapping[str, object]) -> None:
        given = {name: str(words[name]) for name in _KEPT if words.get(name)}
        key = {f"key.{n}": "" if v is None else v for n, v in (start.key or {}).items()}
        change = str(words.get("row") or "")
        row = {"row": change} if change_name(change) else {}
        self.row = {"slot": str(slot), "table": start.name, **key, **row}
        self.words = {**self.row, **given}
        if "actor" in words:
            self.words["actor"] = str(words["actor"])

    def other(self, name: str) -> str:
        """Return the address of another row that had the key."""
        query = urlencode({**self.row, "row": name}, safe="/:.,")
        return f"{reverse('row-history')}?{query}"

    def url(self, **changes: str | None) -> str:
        """Return the address with these parameters changed; ``None`` removes one."""
        words = {**self.words, **changes}
        query = urlencode({n: v for n, v in words.items() if v is not None}, safe="/:.,")
        return f"{reverse('row-history')}?{query}"


def read_page(slot: Slot, start: Start, words: Mapping[str, object]) -> RowPage:
    """Return the content of the page for a row; a malformed cursor in the address is ignored."""
    assert start.table is not None
    assert start.key is not None
    address = _PageAddress(slot, start, words)
    relation = start.table.relation
    actor = str(words["actor"]) if "actor" in words else None
    column = Params(words).text("column", None, strip=False)
    cursor = Params(words).text("cursor", None, strip=False) or None
    session = reading_session()
    recorded = start.table.recorded(session, start.key)
    finder = RowFinder(session, slot, start.table, recorded)
    change = change_name(str(words.get("row") or ""))
    row = finder.row(change)
    read = partial(
        history_of, finder, change=change, limit=PAGE_CHANGES, actor=actor, column=column or None
    )
    try:
        history = read(cursor=cursor)
    except CursorProblem:
        cursor = None
        history = read()
    coverage = coverage_of(reading_session(), slot, table=(relation.schema, relation.table))
    as_of = read_as_of(finder, row, start, words, history, coverage)
    return RowPage(
        history=history,
        sentence=sentence_of(start, history, as_of.now, coverage),
        lines=_opened(history, address, Params(words).text("open", strip=False)),
        strip=strip_of(history, coverage, as_of.at, timezone.now()),
        as_of=as_of,
        coverage=coverage,
        rows=_rows(finder, row, address),
        column=column,
        actor=actor,
        columns=_columns(start, column, address),
        actors=_actors(history, actor, address),
        relation_url=relation_url(relation.pk),
        kept=[(n, v) for n, v in address.words.items() if n not in ("as_of", "before", "cursor")],
        **_addresses(address, history, as_of, cursor),
    )


def _rows(finder: RowFinder, shown: TracedRow, address: _PageAddress) -> list[RowOfKey]:
    """Return the rows that had the key; empty if it is only one."""
    if len(finder.spans) < 2:
        return []
    mine = {each.events[-1].name for each in shown.spans if each.events}
    found = []
    for span in finder.spans[:_MOST_ROWS]:
        first, last = span.events[0], span.events[-1]
        found.append(
            RowOfKey(
                address.other(last.text),
                last.name in mine,
                _BEGUN.get(span.begun, "existed before its first recorded change"),
                first.commit_time,
                _ENDED.get(span.ended, ""),
                span.until,
                len(span.events),
            )
        )
    return found


def _addresses(
    address: _PageAddress, history: RowHistory, as_of: AsOf, cursor: str | None
) -> dict[str, str]:
    """Return the addresses of the page's links, by the fields of ``RowPage``."""
    return {
        "older_url": address.url(cursor=history.older, open=None) if history.older else "",
        "newest_url": address.url(cursor=None, open=None) if cursor else "",
        "row_url": address.url(**dict.fromkeys((*_KEPT, "actor"))),
        "clear_url": address.url(actor=None, column=None, cursor=None),
        "any_column_url": address.url(column=None, cursor=None),
        "any_actor_url": address.url(actor=None, cursor=None),
        "before_url": f"{address.url(before=as_of.before_last, as_of=None)}#as-of",
        "yesterday_url": f"{address.url(as_of=as_of.yesterday, before=None)}#as-of",
        "now_url": address.url(as_of=None, before=None),
    }


def _line(item: HistoryEntry | HistoryMark, address: _PageAddress, history: RowHistory) -> RowLine:
    versions = history.finder.table.shapes.versions
    if isinstance(item, HistoryMark):
        return _marker(item)
    version = versions.get(item.step.version_id)
    line = RowLine("change", item, line_of(item, version))
    line.version = version.number if version else None
    line.open_url = f"{address.url(open=line.name)}#change-{line.name}"
    return line


def _marker(mark: HistoryMark) -> RowLine:
    line = RowLine(mark.kind, mark=mark)
    if mark.kind == "schema" and mark.version is not None and mark.former is not None:
        line.words = summary(shape_of(mark.former), shape_of(mark.version))
        line.at = mark.version.first_seen_at
        both = {"from": str(mark.former.number), "to": str(mark.version.number)}
        line.url = relation_url(mark.version.relation_id, **both)
    elif mark.lapse is not None:
        line.words = f"The table was {mark.lapse.text}. Changes made then are not recorded."
    elif mark.incarnation is not None:
        begun = "The slot started a new incarnation; changes in between are not recorded."
        failed_over = "The source failed over. Nothing is missing."
        line.words = failed_over if mark.kind == "failover" else mark.incarnation.gap or begun
        line.from_time, line.at = mark.incarnation.former_commit_time, mark.incarnation.started_at
    return line


def _opened(history: RowHistory, address: _PageAddress, wanted: str) -> list[RowLine]:
    """Return the lines with one change in full: the requested one, else the newest."""
    lines = [_line(item, address, history) for item in history.items]
    changes = [line for line in lines if line.entry is not None]
    default = changes[:1] if wanted != "none" else []
    for chosen in [line for line in changes if line.name == wanted][:1] or default:
        assert chosen.entry is not None
        versions = history.finder.table.shapes.versions
        chosen.block = _full_change(chosen.entry, versions.get(chosen.entry.step.version_id))
    return lines


def _full_change(entry: HistoryEntry, version: Version | None) -> Block | None:
    """Return the change in full.

    It is built from the history that was read, and read again only if a long value was cut there.
    """
    step, known = entry.step, entry.before
    cut = any(mark_of(value) for image in (step.old, step.new, known.values) if image
              for value in image.values())  # fmt: skip
    if version is None or cut:
        found = changes_of(reading_session(), step.transaction_id, step.seq - 1, 1)
        return blocks_of(found)[0] if found and found[0].seq == step.seq else None
    change = ChangeRow(
        step.transaction_id, step.seq, str(LSN(step.lsn)), step.subxid, step.op, step.old_kind,
        step.old, step.new, step.relation_id, step.key_hash, step.old_key_hash,
        version.schema, version.table, version.number, version.replica_identity,
        version.columns, version.key_columns,
    )  # fmt: skip
    before = {}
    if entry.before_kind == "derived" and known.last is not None:
        last = known.last
        before[step.transaction_id, step.seq] = BeforeImage(
            dict(known.values), last.transaction_id, last.seq, last.xid, last.commit_time, last.op,
            known.altered,
        )  # fmt: skip
    return blocks_of([change], before=before)[0]


def _columns(start: Start, chosen: str, address: _PageAddress) -> list[tuple[str, str, bool]]:
    version = start.table.version if start.table else None
    names = [str(c["name"]) for c in version.columns] if version else []
    return [(n, address.url(column=n, cursor=None, open=None), n == chosen) for n in names]


def _actors(
    history: RowHistory, chosen: str | None, address: _PageAddress
) -> list[tuple[str, str, bool]]:
    actors = [entry.step.actor or "" for entry in history.entries]
    names = dict.fromkeys(actors if chosen is None else [*actors, chosen])
    return [(n, address.url(actor=n, cursor=None, open=None), n == chosen) for n in names]
