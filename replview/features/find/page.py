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
from replview.store.read.row_history.before_images import before_images
from replview.store.read.row_history.replay import BeforeImage
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
_MOVED_SHOWN = 3
_VALUE_CHARACTERS = 48


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
        filter_ = self.wanted.filter
        return self.coverage.says_no_change(filter_.since_at, filter_.until_at)

    def operations(self) -> list[dict[str, Any]]:
        """Return the operations, each with the address that adds or removes it."""
        selected = self.wanted.filter.ops
        choices = []
        for letter, name in OPERATIONS_MANY.items():
            is_selected = letter in selected
            # If all operations are on, choosing one leaves it alone.
            without = letter if selected == "IUDTMS" else selected.replace(letter, "")
            url = self._url(ops=without if is_selected else selected + letter)
            choices.append({"letter": letter, "name": name, "on": is_selected, "url": url})
        return choices

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
        return [(text, meaning, self._url(where=text)) for text, meaning in texts]

    def _url(self, **changes: str) -> str:
        params = {**self.words, **changes}
        slot = params.pop("slot", str(self.slot))
        return find_url(slot, **{name: value for name, value in params.items() if value})


def read_page(query: QueryDict, slot: Slot) -> FindPage:
    """Return the page for an address; what is not understood becomes its ``trouble``."""
    params = {name: ",".join(query.getlist(name)) for name in query}
    search = WantedChanges.from_words(slot, params)
    page_params = search.words()
    if "tables" in page_params:
        page_params["table"] = page_params.pop("tables")
    page = FindPage(
        slot=slot,
        wanted=search,
        words=page_params,
        tables=_table_choices(slot),
        columns=columns_in(search.shapes(reading_session())) if search.filter.tables else [],
        trouble=search.trouble or unknown_words(reading_session(), search.filter.tables, str(slot)),
    )
    if params.get("where") and not search.where:
        # A condition that was not understood stays in its field.
        page.words["where"] = params["where"][:2000]
    if search.where and not search.filter.tables and not search.filter.since:
        page.trouble = page.trouble or (
            "searching all tables needs a time range: choose a table, or set Since"
        )
    if page.trouble:
        return page
    cursor = ScanPosition.parse(params.get("cursor", ""))
    page.further = cursor is not None
    started = time.monotonic()
    try:
        page.found = find_changes(
            reading_session(), search, cursor=cursor, limit=PAGE_ROWS,
            budget_seconds=BUDGET_SECONDS,
        )  # fmt: skip
    except WhereProblem as error:
        page.trouble = str(error)
        return page
    page.took_ms = round((time.monotonic() - started) * 1000)
    page.lines = _found_lines(page.found, search)
    page.coverage = _coverage(search)
    return page


def _coverage(search: WantedChanges) -> Coverage:
    filter_ = search.filter
    return coverage_of(
        reading_session(),
        search.slot,
        table=search.table(reading_session()),
        since=filter_.since_at,
        until=filter_.until_at,
    )


def _table_choices(slot: Slot) -> list[str]:
    relations = Relation.objects.filter(slot=slot).order_by("schema", "table")
    names = relations.values_list("schema", "table")[:_TABLES_LIMIT]
    return list(dict.fromkeys(table_text(*name) for name in names))


def columns_in(shapes: Sequence[VersionShape]) -> list[tuple[str, str]]:
    """Return names and types of the columns, those of the newest shape first."""
    types: dict[str, str] = {}
    for shape in sorted(shapes, key=lambda shape: (shape.relation_id, shape.number), reverse=True):
        for column in shape.columns:
            types.setdefault(str(column["name"]), str(column.get("type") or ""))
    return list(types.items())


def _found_lines(result: FoundChanges, search: WantedChanges) -> list[FoundLine]:
    blocks = blocks_of([change for _, change in result.rows], before=_before_images(result, search))
    return [
        FoundLine(
            row=row,
            change=change,
            block=block,
            slot=str(search.slot),
            moved=(moved := _moved_columns(block, search.where.columns))[:_MOVED_SHOWN],
            more=max(len(moved) - _MOVED_SHOWN, 0),
        )
        for (row, change), block in zip(result.rows, blocks, strict=True)
    ]


def _before_images(
    result: FoundChanges, search: WantedChanges
) -> dict[tuple[int, int], BeforeImage]:
    """Return the before images that the search read, and those of the other changes.

    Without any condition the newest changes are only listed, and no others are read.
    """
    images = {position: image for position, image in result.before.items() if image is not None}
    if search.words().keys() <= {"slot"}:
        return images
    changes = [change for _, change in result.rows]
    rest = [c for c in changes if (c.transaction_id, c.seq) not in result.before]
    return images | before_images(reading_session(), rest, result.shared)


def _moved_columns(block: Block, columns: Sequence[str]) -> list[Moved]:
    """Return the columns that differ, those of the condition first."""
    lines = [line for line in block.lines if not line.key or block.op != "U"]
    searched = [line for line in (*block.lines, *block.folded) if line.name in columns]
    chosen = list({line.name: line for line in (*searched, *lines)}.values())
    if block.op != "U":
        chosen = [line for line in chosen if not line.key or line.name in columns]
    return [Moved(line.name, _shorten(line.before), _shorten(line.after)) for line in chosen]


def _shorten(cell: Cell | None) -> Cell | None:
    if cell is None or len(cell.text) <= _VALUE_CHARACTERS:
        return cell
    return Cell(cell.text[:_VALUE_CHARACTERS] + "…", cell.kind, derived=cell.derived)
