"""The content of the find page: changes found by the values that they wrote."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict

from replview.access.visibility import reading_session
from replview.store.models import Relation, Slot
from replview.store.read.changes.scan_places import ScanPosition
from replview.store.read.changes.search import FoundChanges, find_changes
from replview.store.read.changes.wanted import WantedChanges
from replview.store.read.coverage import Coverage, coverage_of
from replview.store.read.relation_shapes import VersionShape
from replview.store.read.row_history.before_images import BeforeImage, before_images
from replview.store.read.rows import ChangeRow, TransactionRow
from replview.store.read.table_names import unknown_words
from replview.store.read.value_filter import WhereProblem
from replview.text.addresses import find_url
from replview.text.parsing import table_text
from replview.ui.changes.cells import Block, Cell
from replview.ui.changes.change_blocks import blocks_of
from replview.ui.component_html import OPERATIONS_MANY

PAGE_ROWS = 50
#: Seconds that a page may spend on searching.
BUDGET_SECONDS = 0.6
_TABLES_LIMIT = 500
#: Columns that a line's sentence names, and characters of a value in it.
_MOST_MOVED = 3
_VALUE = 48


@dataclass(frozen=True, slots=True)
class Moved:
    """A column in a line's sentence: ``status: pending → paid``, or one value alone."""

    name: str
    before: Cell | None
    after: Cell | None

    @property
    def both(self) -> bool:
        """Return whether both values are shown."""
        return self.before is not None and self.after is not None


@dataclass(slots=True, kw_only=True)
class FoundLine:
    """One found change, with its transaction and its sentence."""

    row: TransactionRow
    change: ChangeRow
    block: Block
    #: ``source/name``.
    slot: str
    moved: list[Moved] = field(default_factory=list)
    more: int = 0

    @property
    def time(self) -> datetime:
        """Return the commit time by the source's clock if known, else the time of storing."""
        return self.row.commit_time or self.row.stored_at or self.row.received_at

    @property
    def actor(self) -> str | None:
        """Return the actor of the change; None: unknown."""
        return self.row.actor_of(self.change.seq)

    @property
    def name(self) -> str:
        """Return the transaction's gid, else its xid, else nothing."""
        return self.row.gid or ("" if self.row.xid is None else str(self.row.xid))

    @property
    def key_words(self) -> str:
        """Return the row's key in words: ``42`` or ``a 1, b 2``."""
        values = self.block.key
        if len(values) == 1:
            return values[0][1]
        return ", ".join(f"{name} {value}" for name, value in values)


@dataclass(slots=True, kw_only=True)
class FindPage:
    """The content of the find page."""

    slot: Slot
    wanted: WantedChanges
    words: dict[str, str]
    tables: list[str]
    columns: list[tuple[str, str]]
    lines: list[FoundLine] = field(default_factory=list)
    found: FoundChanges | None = None
    trouble: str = ""
    coverage: Coverage | None = None
    took_ms: int = 0
    #: True if the list continues from a place in history.
    further: bool = False

    @property
    def older_url(self) -> str:
        """Return the address of the next, older page; empty on the last one."""
        older = self.found.older if self.found else None
        return "" if older is None else self._url(cursor=str(older))

    @property
    def newest_url(self) -> str:
        """Return the address of the first page."""
        return self._url()

    @property
    def query(self) -> str:
        """Return the parameters as the query of an address."""
        return urlencode(self.words, safe="/")

    @property
    def narrowed(self) -> bool:
        """Return whether the search has a condition other than the slot."""
        return bool(self.words.keys() - {"slot"})

    @property
    def nothing_vouched(self) -> bool:
        """Return whether an empty result proves that there is no such change."""
        if self.coverage is None or self.found is None or not self.found.complete:
            return False
        asked = self.wanted.filter
        return self.coverage.says_no_change(asked.since_at, asked.until_at)

    def operations(self) -> list[dict[str, Any]]:
        """Return the operations, each with the address that adds or removes it."""
        now = self.wanted.filter.ops
        offered = []
        for letter, name in OPERATIONS_MANY.items():
            on = letter in now
            # If all operations are on, choosing one leaves it alone.
            without = letter if now == "IUDTMS" else now.replace(letter, "")
            url = self._url(ops=without if on else now + letter)
            offered.append({"letter": letter, "name": name, "on": on, "url": url})
        return offered

    def examples(self) -> list[tuple[str, str, str]]:
        """Return ``[(condition, its meaning, address)]`` for columns that the table has."""
        names = [name for name, _ in self.columns]
        first = next((n for n in names if n == "status"), names[-1] if names else "status")
        amount = next(
            (n for n, kind in self.columns if kind.startswith(("numeric", "int"))), "amount"
        )
        quoted = first if first.isidentifier() else f'"{first}"'
        texts = (
            (f"{quoted} = paid", "the value after the change; of a deleted row, before it"),
            (f"{quoted} changed", "an update gave it another value"),
            (f"{quoted}: pending -> paid", "from one value to another; * is any"),
            (f"{amount} > 100 and {quoted} = paid", "compared as the column's type"),
            (f"{quoted} ~ pa", "contains, ignoring case"),
            (f"{quoted} is null", "SQL NULL"),
        )
        return [(text, words, self._url(where=text)) for text, words in texts]

    def _url(self, **changes: str) -> str:
        words = {**self.words, **changes}
        slot = words.pop("slot", str(self.slot))
        return find_url(slot, **{name: word for name, word in words.items() if word})


def read_page(query: QueryDict, slot: Slot) -> FindPage:
    """Return the page for an address; what is not understood becomes its ``trouble``."""
    given = {name: ",".join(query.getlist(name)) for name in query}
    wanted = WantedChanges.from_words(slot, given)
    words = wanted.words()
    if "tables" in words:
        words["table"] = words.pop("tables")
    page = FindPage(
        slot=slot,
        wanted=wanted,
        words=words,
        tables=_tables(slot),
        columns=columns_in(wanted.shapes(reading_session())) if wanted.filter.tables else [],
        trouble=wanted.trouble or unknown_words(reading_session(), wanted.filter.tables, str(slot)),
    )
    if given.get("where") and not wanted.where:
        # A condition that was not understood stays in its field.
        page.words["where"] = given["where"][:2000]
    if wanted.where and not wanted.filter.tables and not wanted.filter.since:
        page.trouble = page.trouble or (
            "searching all tables needs a time range: choose a table, or set Since"
        )
    if page.trouble:
        return page
    cursor = ScanPosition.parse(given.get("cursor", ""))
    page.further = cursor is not None
    started = time.monotonic()
    try:
        page.found = find_changes(
            reading_session(), wanted, cursor=cursor, limit=PAGE_ROWS,
            budget_seconds=BUDGET_SECONDS,
        )  # fmt: skip
    except WhereProblem as error:
        page.trouble = str(error)
        return page
    page.took_ms = round((time.monotonic() - started) * 1000)
    page.lines = _lines(page.found, wanted)
    page.coverage = _coverage(wanted)
    return page


def _coverage(wanted: WantedChanges) -> Coverage:
    asked = wanted.filter
    return coverage_of(
        reading_session(),
        wanted.slot,
        table=wanted.table(reading_session()),
        since=asked.since_at,
        until=asked.until_at,
    )


def _tables(slot: Slot) -> list[str]:
    relations = Relation.objects.filter(slot=slot).order_by("schema", "table")
    names = relations.values_list("schema", "table")[:_TABLES_LIMIT]
    return list(dict.fromkeys(table_text(*each) for each in names))


def columns_in(shapes: Sequence[VersionShape]) -> list[tuple[str, str]]:
    """Return names and types of the columns, those of the newest shape first."""
    found: dict[str, str] = {}
    for shape in sorted(shapes, key=lambda shape: (shape.relation_id, shape.number), reverse=True):
        for column in shape.columns:
            found.setdefault(str(column["name"]), str(column.get("type") or ""))
    return list(found.items())


def _lines(found: FoundChanges, wanted: WantedChanges) -> list[FoundLine]:
    blocks = blocks_of([change for _, change in found.rows], before=_before(found, wanted))
    return [
        FoundLine(
            row=row,
            change=change,
            block=block,
            slot=str(wanted.slot),
            moved=(moved := _moved(block, wanted.where.columns))[:_MOST_MOVED],
            more=max(len(moved) - _MOST_MOVED, 0),
        )
        for (row, change), block in zip(found.rows, blocks, strict=True)
    ]


def _before(found: FoundChanges, wanted: WantedChanges) -> dict[tuple[int, int], BeforeImage]:
    """Return the before images that the search read, and those of the other changes.

    Without any condition the newest changes are only listed, and no others are read.
    """
    known = {at: before for at, before in found.before.items() if before is not None}
    if wanted.words().keys() <= {"slot"}:
        return known
    changes = [change for _, change in found.rows]
    rest = [c for c in changes if (c.transaction_id, c.seq) not in found.before]
    return known | before_images(reading_session(), rest, found.shared)


def _moved(block: Block, columns: Sequence[str]) -> list[Moved]:
    """Return the columns that differ, those of the condition first."""
    lines = [line for line in block.lines if not line.key or block.op != "U"]
    asked = [line for line in (*block.lines, *block.folded) if line.name in columns]
    chosen = list({line.name: line for line in (*asked, *lines)}.values())
    if block.op != "U":
        chosen = [line for line in chosen if not line.key or line.name in columns]
    return [Moved(line.name, _short(line.before), _short(line.after)) for line in chosen]


def _short(cell: Cell | None) -> Cell | None:
    if cell is None or len(cell.text) <= _VALUE:
        return cell
    return Cell(cell.text[:_VALUE] + "…", cell.kind, derived=cell.derived)
