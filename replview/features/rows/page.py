"""The content of a row's page: its changes, the strip above them, and the row as of a moment."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.features.rows.as_of_page import AsOf, read_as_of
from replview.features.rows.text import ChangeLine, RowSentence, line_of, sentence_of
from replview.store.models import Slot
from replview.store.read.changes.of_transaction import changes_of
from replview.store.read.changes.values import mark_of
from replview.store.read.coverage import Coverage, coverage_of
from replview.store.read.row_history.events import change_name
from replview.store.read.row_history.finding import RowFinder, TracedRow
from replview.store.read.row_history.history import (
    CursorProblem,
    HistoryMark,
    RowHistory,
    history_of,
)
from replview.store.read.row_history.replay import BeforeImage, HistoryEntry
from replview.store.read.row_history.shapes import Version
from replview.store.read.rows import ChangeRow
from replview.text.addresses import relation_url
from replview.ui.changes.cells import Block
from replview.ui.changes.change_blocks import blocks_of
from replview.ui.params import Params
from replview.ui.row_start import Start
from replview.ui.versions import shape_of, summary

#: The strip's right end in percent; the rest stays free, so that the last change is visible.
_RIGHT_END = 99.0
_LEFT_END = 1.0
#: Width in percent of the strip before a break in its line.
_BREAK_WIDTH = 8.0
#: Changes on a page.
PAGE_CHANGES = 50
#: Rows of the same key that are listed at most.
_MOST_ROWS = 20
_KEPT_PARAMETERS = ("as_of", "before", "column", "cursor")
#: Words for how a row got its key, and how it lost it, by the kinds of a period.
_BEGUN_WORDS = {
    "insert": "inserted", "moved": "moved here from another key", "snapshot": "read by a baseline",
}  # fmt: skip
_ENDED_WORDS = {
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
    recorded_since = coverage.recorded_since
    times += [as_of] if as_of and (not recorded_since or as_of > recorded_since) else []
    oldest = min(times, default=now)
    margin = max((now - oldest) * 0.06, dt.timedelta(seconds=1))
    begins = oldest - margin
    broken = recorded_since is not None and recorded_since < begins - margin
    if recorded_since is not None and not broken:
        begins = recorded_since
    left_end = _BREAK_WIDTH if broken else _LEFT_END
    span_seconds = max((now - begins).total_seconds(), 0.001)

    def position_of(moment: dt.datetime) -> float:
        share = min(max((moment - begins).total_seconds() / span_seconds, 0.0), 1.0)
        return round(left_end + share * (_RIGHT_END - left_end), 2)

    gaps = [gap for gap in coverage.gaps if gap.is_time and gap.to_time >= begins]
    gap_edges = [(position_of(gap.from_time or begins), position_of(gap.to_time)) for gap in gaps]
    first_gap = min(gaps, key=lambda gap: gap.to_time, default=None)
    steps = [entry.step for entry in history.entries]
    return Strip(
        begins=recorded_since,
        broken=broken,
        ticks=tuple(
            (position_of(step.commit_time), step.op)
            for step in steps
            if step.commit_time is not None
        ),
        gaps=tuple((left, round(max(right - left, 0.8), 2)) for left, right in gap_edges),
        gap_at=first_gap.from_time or first_gap.to_time if first_gap else None,
        as_of=None if as_of is None else position_of(as_of),
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
    """One of the rows that had the key: the period of time, and how it began and ended."""

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
        more = finder.limited or len(finder.periods) > len(self.rows)
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

    def __init__(self, slot: Slot, start: Start, params: Mapping[str, object]) -> None:
        kept = {name: str(params[name]) for name in _KEPT_PARAMETERS if params.get(name)}
        key = {
            f"key.{column}": "" if value is None else value
            for column, value in (start.key or {}).items()
        }
        change = str(params.get("row") or "")
        row = {"row": change} if change_name(change) else {}
        self.row = {"slot": str(slot), "table": start.name, **key, **row}
        self.params = {**self.row, **kept}
        if "actor" in params:
            self.params["actor"] = str(params["actor"])

    def other(self, name: str) -> str:
        """Return the address of another row that had the key."""
        query = urlencode({**self.row, "row": name}, safe="/:.,")
        return f"{reverse('row-history')}?{query}"

    def url(self, **changes: str | None) -> str:
        """Return the address with these parameters changed; ``None`` removes one."""
        params = {**self.params, **changes}
        query = urlencode(
            {name: value for name, value in params.items() if value is not None}, safe="/:.,"
        )
        return f"{reverse('row-history')}?{query}"


def read_page(slot: Slot, start: Start, params: Mapping[str, object]) -> RowPage:
    """Return the content of the page for a row; a malformed cursor in the address is ignored."""
    assert start.table is not None
    assert start.key is not None
    address = _PageAddress(slot, start, params)
    relation = start.table.relation
    actor = str(params["actor"]) if "actor" in params else None
    column = Params(params).text("column", None, strip=False)
    cursor = Params(params).text("cursor", None, strip=False) or None
    session = reading_session()
    recorded = start.table.recorded(session, start.key)
    finder = RowFinder(session, slot, start.table, recorded)
    change = change_name(str(params.get("row") or ""))
    row = finder.row(change)
    read_history = partial(
        history_of, finder, change=change, limit=PAGE_CHANGES, actor=actor, column=column or None
    )
    try:
        history = read_history(cursor=cursor)
    except CursorProblem:
        cursor = None
        history = read_history()
    coverage = coverage_of(reading_session(), slot, table=(relation.schema, relation.table))
    as_of = read_as_of(finder, row, start, params, history, coverage)
    return RowPage(
        history=history,
        sentence=sentence_of(start, history, as_of.now, coverage),
        lines=_lines_with_open_change(history, address, Params(params).text("open", strip=False)),
        strip=strip_of(history, coverage, as_of.at, timezone.now()),
        as_of=as_of,
        coverage=coverage,
        rows=_rows_of_key(finder, row, address),
        column=column,
        actor=actor,
        columns=_column_choices(start, column, address),
        actors=_actor_choices(history, actor, address),
        relation_url=relation_url(relation.pk),
        kept=[(n, v) for n, v in address.params.items() if n not in ("as_of", "before", "cursor")],
        **_link_addresses(address, history, as_of, cursor),
    )


def _rows_of_key(finder: RowFinder, shown_row: TracedRow, address: _PageAddress) -> list[RowOfKey]:
    """Return the rows that had the key; empty if it is only one."""
    if len(finder.periods) < 2:
        return []
    shown_names = {period.events[-1].name for period in shown_row.periods if period.events}
    rows = []
    for period in finder.periods[:_MOST_ROWS]:
        first, last = period.events[0], period.events[-1]
        rows.append(
            RowOfKey(
                address.other(last.text),
                last.name in shown_names,
                _BEGUN_WORDS.get(period.begun, "existed before its first recorded change"),
                first.commit_time,
                _ENDED_WORDS.get(period.ended, ""),
                period.until,
                len(period.events),
            )
        )
    return rows


def _link_addresses(
    address: _PageAddress, history: RowHistory, as_of: AsOf, cursor: str | None
) -> dict[str, str]:
    """Return the addresses of the page's links, by the fields of ``RowPage``."""
    return {
        "older_url": address.url(cursor=history.older, open=None) if history.older else "",
        "newest_url": address.url(cursor=None, open=None) if cursor else "",
        "row_url": address.url(**dict.fromkeys((*_KEPT_PARAMETERS, "actor"))),
        "clear_url": address.url(actor=None, column=None, cursor=None),
        "any_column_url": address.url(column=None, cursor=None),
        "any_actor_url": address.url(actor=None, cursor=None),
        "before_url": f"{address.url(before=as_of.before_last, as_of=None)}#as-of",
        "yesterday_url": f"{address.url(as_of=as_of.yesterday, before=None)}#as-of",
        "now_url": address.url(as_of=None, before=None),
    }


def _row_line(
    item: HistoryEntry | HistoryMark, address: _PageAddress, history: RowHistory
) -> RowLine:
    versions = history.finder.table.shapes.versions
    if isinstance(item, HistoryMark):
        return _marker_line(item)
    version = versions.get(item.step.version_id)
    line = RowLine("change", item, line_of(item, version))
    line.version = version.number if version else None
    line.open_url = f"{address.url(open=line.name)}#change-{line.name}"
    return line


def _marker_line(mark: HistoryMark) -> RowLine:
    line = RowLine(mark.kind, mark=mark)
    if mark.kind == "schema" and mark.version is not None and mark.former is not None:
        line.words = summary(shape_of(mark.former), shape_of(mark.version))
        line.at = mark.version.first_seen_at
        versions = {"from": str(mark.former.number), "to": str(mark.version.number)}
        line.url = relation_url(mark.version.relation_id, **versions)
    elif mark.lapse is not None:
        line.words = f"The table was {mark.lapse.text}. Changes made then are not recorded."
    elif mark.incarnation is not None:
        new_incarnation = "The slot started a new incarnation; changes in between are not recorded."
        failed_over = "The source failed over. Nothing is missing."
        line.words = (
            failed_over if mark.kind == "failover" else mark.incarnation.gap or new_incarnation
        )
        line.from_time, line.at = mark.incarnation.former_commit_time, mark.incarnation.started_at
    return line


def _lines_with_open_change(
    history: RowHistory, address: _PageAddress, open_name: str
) -> list[RowLine]:
    """Return the lines with one change in full: the requested one, else the newest."""
    lines = [_row_line(item, address, history) for item in history.items]
    changes = [line for line in lines if line.entry is not None]
    default = changes[:1] if open_name != "none" else []
    for opened in [line for line in changes if line.name == open_name][:1] or default:
        assert opened.entry is not None
        versions = history.finder.table.shapes.versions
        opened.block = _full_change(opened.entry, versions.get(opened.entry.step.version_id))
    return lines


def _full_change(entry: HistoryEntry, version: Version | None) -> Block | None:
    """Return the change in full.

    It is built from the history that was read, and read again only if a long value was cut there.
    """
    step, prior = entry.step, entry.before
    cut = any(mark_of(value) for image in (step.old, step.new, prior.values) if image
              for value in image.values())  # fmt: skip
    if version is None or cut:
        changes = changes_of(reading_session(), step.transaction_id, step.seq - 1, 1)
        return blocks_of(changes)[0] if changes and changes[0].seq == step.seq else None
    change = ChangeRow(
        step.transaction_id, step.seq, str(LSN(step.lsn)), step.subxid, step.op, step.old_kind,
        step.old, step.new, step.relation_id, step.key_hash, step.old_key_hash,
        version.schema, version.table, version.number, version.replica_identity,
        version.columns, version.key_columns,
    )  # fmt: skip
    before = {}
    if entry.before_kind == "derived" and prior.last is not None:
        image = BeforeImage.of(prior.values, prior.last, prior.altered)
        before[step.transaction_id, step.seq] = image
    return blocks_of([change], before=before)[0]


def _column_choices(
    start: Start, chosen: str, address: _PageAddress
) -> list[tuple[str, str, bool]]:
    version = start.table.version if start.table else None
    names = [str(column["name"]) for column in version.columns] if version else []
    return [
        (name, address.url(column=name, cursor=None, open=None), name == chosen) for name in names
    ]


def _actor_choices(
    history: RowHistory, chosen: str | None, address: _PageAddress
) -> list[tuple[str, str, bool]]:
    actors = [entry.step.actor or "" for entry in history.entries]
    names = dict.fromkeys(actors if chosen is None else [*actors, chosen])
    return [
        (name, address.url(actor=name, cursor=None, open=None), name == chosen) for name in names
    ]
