"""Build the content of a transaction's page."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils import timezone

from replview.access.visibility import reading_session
from replview.features.transactions.filters import Shown, TableEntry, table_entries, table_of
from replview.features.transactions.timeline import Timeline, timeline_of
from replview.store.models import Slot
from replview.store.read import history
from replview.store.read.changes.as_sql import MOST_CHANGES
from replview.store.read.changes.of_transaction import ChangePage, first_spots, read_changes_page
from replview.store.read.history import transitions_of
from replview.store.read.rows import TransactionRow
from replview.store.read.transactions.neighbours import Neighbours, neighbours_of
from replview.text.addresses import actor_url, slot_page_url
from replview.text.formats import plural
from replview.ui.changes import transaction_text
from replview.ui.changes.cells import Block
from replview.ui.changes.change_blocks import blocks_of
from replview.ui.changes.drawer import PAGE_CHANGES
from replview.ui.changes.stages import LifecycleDrawing, lifecycle_of
from replview.ui.component_html import OPERATIONS, grade_kind

#: Number of changes that are read for the timeline's marks.
_TIMELINE_CHANGES = 300
#: Most tables listed beside the changes; a transaction may change thousands.
_TABLES_SHOWN = 100


@dataclass(slots=True)
class ChangesPage:
    """A page of changes, with its place among all changes."""

    blocks: list[Block] = field(default_factory=list)
    #: Addresses of other pages; empty if there is no such page.
    earlier: str = ""
    later: str = ""
    first: str = ""
    last: str = ""
    #: Last change that was searched within the limit, and the address that continues there.
    searched_to: int | None = None
    go_on: str = ""
    backwards: bool = False
    #: True when the filter names a table that the transaction did not change.
    no_table: bool = False
    #: True when the page shows all changes of the transaction.
    whole: bool = False
    #: Number of ``blocks`` that are hidden: updates that changed nothing.
    hidden: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayChoices:
    """Addresses that show the changes in other ways."""

    #: Letter, shown or not, address that switches it, and label.
    ops: list[tuple[str, bool, str, str]]
    neighbours_query: str
    url_side: str
    url_inline: str
    url_changed: str
    url_all: str
    url_unchanged: str
    url_unfiltered: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPage:
    """The content of a transaction's page."""

    slot: Slot
    row: TransactionRow
    shown: Shown
    heading: transaction_text.Heading
    sentence: transaction_text.TransactionSentence
    #: Sentence about the source of the actor's name.
    grade_words: str
    #: None for a transaction that was received in one piece.
    lifecycle: LifecycleDrawing | None
    #: None if there is nothing to draw.
    timeline: Timeline | None
    context: list[tuple[str, str]]
    entries: list[TableEntry]
    #: Number of tables that ``entries`` leaves out.
    more_entries: int
    changes: ChangesPage
    #: Changes that are shown, without updates that changed nothing if those are hidden.
    blocks: list[Block]
    choices: DisplayChoices
    #: Each part with the kind of its grade and the address of its actor.
    actors: list[tuple[Mapping[str, Any], str, str]]
    coverage_url: str
    download_query: str
    first_seq: int
    last_seq: int
    total: int
    #: ``title`` and ``why`` for a page without a change.
    empty: dict[str, str]
    #: The chosen table, else the one with most changes; None without a table.
    of_table: TableEntry | None
    neighbours: Neighbours | None
    #: A sentence for each thing the transaction did that is not among its changes.
    apart: list[str]
    #: The reason that the transaction cannot be undone; empty if none is known.
    not_undone: str


def read_page(params: QueryDict, row: TransactionRow, slot: Slot) -> TransactionPage:
    """Read the page of a transaction as the query parameters ask for it."""
    shown = Shown.from_words(params)
    names = history.relation_names(reading_session(), {int(key) for key in row.relations})
    staged = row.streamed or row.gid
    transitions = transitions_of(reading_session(), [row.id]).get(row.id, ()) if staged else ()
    entries = table_entries(row, names, shown)
    relations = {e.value: e.relation_id for e in entries if e.relation_id is not None}
    spots, last_seq = first_spots(reading_session(), row.id, _TIMELINE_CHANGES)
    changes = read_changes(row, slot, shown, relations, last_seq)
    of_table = table_of(entries)
    return TransactionPage(
        slot=slot,
        row=row,
        shown=shown,
        heading=transaction_text.heading_of(row),
        sentence=transaction_text.sentence_of(row, changes.blocks, whole=changes.whole),
        grade_words=transaction_text.grade_words(row),
        lifecycle=lifecycle_of(row, transitions, timezone.now()),
        timeline=timeline_of(row, spots if row.first_lsn else [], names, transitions),
        context=context_lines(row.context),
        entries=entries[:_TABLES_SHOWN],
        more_entries=max(len(entries) - _TABLES_SHOWN, 0),
        changes=changes,
        blocks=[block for block in changes.blocks
                if not (shown.only_changed and block.changed_nothing)],
        choices=_display_choices(shown, "S" if row.state == "snapshot" else "IUDTM"),
        actors=[(part, grade_kind(part["grade"]), actor_url(slot, part["actor"] or ""))
                for part in row.parts],
        coverage_url=slot_page_url(slot),
        download_query=urlencode({"slot": str(slot), "transaction": row.id}, safe="/,"),
        first_seq=changes.blocks[0].seq if changes.blocks else 0,
        last_seq=changes.blocks[-1].seq if changes.blocks else 0,
        total=row.changes + row.aborted_changes,
        empty=empty_words(row, shown, changes),
        of_table=of_table,
        neighbours=_neighbours(row, of_table),
        apart=apart_words(row, slot),
        not_undone=_undo_problem(row, changes),
    )  # fmt: skip


def _display_choices(shown: Shown, letters: str) -> DisplayChoices:
    return DisplayChoices(
        ops=[
            (
                letter,
                letter in (shown.ops or letters),
                shown.query(ops=shown.toggled(letter, letters)),
                OPERATIONS[letter],
            )
            for letter in letters
        ],
        neighbours_query=shown.query(ops="", text="", table=""),
        url_side=shown.query(stay=True, inline=False),
        url_inline=shown.query(stay=True, inline=True),
        url_changed=shown.query(stay=True, all_columns=False),
        url_all=shown.query(stay=True, all_columns=True),
        url_unchanged=shown.query(stay=True, only_changed=not shown.only_changed),
        url_unfiltered=shown.query(table="", ops="", text=""),
    )


def read_changes(
    row: TransactionRow,
    slot: Slot,
    shown: Shown,
    relations: Mapping[str, int],
    last_seq: int | None = None,
) -> ChangesPage:
    """Read one page of filtered changes; ``last_seq`` is the last change's number, if known."""
    with_aborted = bool(row.aborted_changes) and slot.keep_aborted
    change_filter = shown.change_filter(relations, with_aborted=with_aborted)
    backwards = shown.before is not None
    if change_filter is None:
        return ChangesPage(no_table=True)
    change_page = read_changes_page(
        reading_session(), row.id, change_filter, after=shown.after, before=shown.before,
        limit=PAGE_CHANGES, last=last_seq,
    )  # fmt: skip
    not_undone = transaction_text.NOT_UNDONE.get(row.state, "")
    blocks = blocks_of(change_page.rows, all_columns=shown.all_columns, not_undone=not_undone)
    hidden = sum(block.changed_nothing for block in blocks) if shown.only_changed else 0
    page = ChangesPage(
        blocks, hidden=hidden, searched_to=change_page.searched_to, backwards=backwards
    )
    at_first = not shown.after and not backwards
    page.whole = (
        at_first and not shown.filtered and not change_page.more and change_page.searched_to is None
    )
    _add_addresses(page, change_page, shown, at_first)
    return page


def _add_addresses(
    page: ChangesPage, change_page: ChangePage, shown: Shown, at_first: bool
) -> None:
    backwards = page.backwards
    first_seq = change_page.rows[0].seq if change_page.rows else None
    last_seq = change_page.rows[-1].seq if change_page.rows else None
    if change_page.searched_to is not None:
        param = "before" if backwards else "after"
        page.go_on = shown.query_at(**{param: change_page.searched_to})
    if backwards:
        if change_page.more and first_seq is not None:
            page.earlier = shown.query_at(before=first_seq)
        if "end" not in shown.place():
            page.later = shown.query_at(after=last_seq or (shown.before or 1) - 1)
    else:
        if change_page.more and last_seq is not None:
            page.later = shown.query_at(after=last_seq)
        if not at_first:
            page.earlier = shown.query_at(before=first_seq or shown.after + 1)
    page.first = shown.query_at() if page.earlier else ""
    page.last = shown.query_at(end="last") if page.later or page.go_on else ""


def _neighbours(row: TransactionRow, table: TableEntry | None) -> Neighbours | None:
    if table is None or table.relation_id is None or row.commit_seq is None:
        return None
    return neighbours_of(reading_session(), row.incarnation_id, row.commit_seq, table.relation_id)


def _undo_problem(row: TransactionRow, changes: ChangesPage) -> str:
    """Return why the whole transaction cannot be undone; empty if nothing prevents it."""
    if problem := transaction_text.NOT_UNDONE.get(row.state):
        return problem
    row_changes = row.inserts + row.updates + row.deletes + row.truncates
    if not row_changes:
        return "it changed no row"
    if row_changes > MOST_CHANGES:
        return f"it has more than {MOST_CHANGES:,} changes"
    blocking = [
        block
        for block in changes.blocks
        if block.undo_problem and not block.aborted and block.op in "IUDT"
    ]
    if blocking:
        return f"change {blocking[0].seq:,}: {blocking[0].undo_problem}"
    return ""


def context_lines(context: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return the context as lines of a name and a text, or JSON for nested values.

    Members of a stamp have names such as ``stamp.application_name``.
    """
    return [
        (key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2))
        for key, value in transaction_text.flat_context(context)
    ]


def empty_words(row: TransactionRow, shown: Shown, changes: ChangesPage) -> dict[str, str]:
    """Return title and explanation for a page without changes."""
    if changes.no_table:
        why = f"This transaction has no change of {shown.table}."
        return {"title": "Not touched", "why": why}
    if shown.filtered:
        title, scope = "Nothing passes", "of this transaction"
        if changes.searched_to is not None:
            title, scope = "Nothing yet", "that was searched"
        return {"title": title, "why": f"No change {scope} matches this filter."}
    reasons = {
        "receiving": "Loading its first changes.",
        "streaming": "Loading its first changes.",
        "aborted": "The transaction did not commit, and its changes were deleted. The slot’s "
        "option keep_aborted keeps such changes.",
        "skipped": "They were skipped by decision of a user.",
    }
    reasons["rolled back"] = reasons["aborted"]
    why = reasons.get(row.state, "It changed no published table.")
    return {"title": "No changes here", "why": why}


def apart_words(row: TransactionRow, slot: Slot) -> list[str]:
    """Return a sentence for each thing the transaction did that is not among its changes."""
    if row.state in ("snapshot", "message") or not row.aborted_changes:
        return []
    treatment = ": hidden, and deleted once the transaction has ended"
    if slot.keep_aborted:
        treatment = ": shown among the changes, struck through"
    return [f"{plural(row.aborted_changes, 'change')} rolled back to a savepoint{treatment}."]
