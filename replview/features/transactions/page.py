"""Everything on a transaction's page but its frame."""

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
from replview.ui.changes.stages import Lifecycle, lifecycle_of
from replview.ui.component_html import OPERATIONS, grade_kind

#: Changes looked at for the timeline's marks.
_SPOTS = 300
#: Tables listed beside the changes; a transaction may touch thousands.
_TABLES_SHOWN = 100


@dataclass(slots=True)
class Changes:
    """A page of changes and where it stands among the others."""

    blocks: list[Block] = field(default_factory=list)
    #: Addresses; empty: nothing there.
    earlier: str = ""
    later: str = ""
    first: str = ""
    last: str = ""
    #: Nothing beyond this change was looked at; the address that goes on from it.
    searched_to: int | None = None
    go_on: str = ""
    backwards: bool = False
    #: The filter names a table that the transaction did not touch.
    no_table: bool = False
    #: All that counts is on this page.
    whole: bool = False
    #: How many of ``blocks`` are not shown: updates that changed nothing.
    hidden: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayChoices:
    """How the changes may be shown otherwise, each with its address."""

    #: (letter, shown, address that turns it, words).
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
    """Everything on a transaction's page."""

    slot: Slot
    row: TransactionRow
    shown: Shown
    heading: transaction_text.Heading
    sentence: transaction_text.Sentence
    #: How the actor's name is known.
    grade_words: str
    #: None for a transaction that was received in one piece.
    lifecycle: Lifecycle | None
    #: None where there is nothing to draw.
    timeline: Timeline | None
    context: list[tuple[str, str]]
    entries: list[TableEntry]
    #: Tables beyond those of ``entries``.
    more_entries: int
    changes: Changes
    #: Changes that are shown: without updates that changed nothing, where that is chosen.
    blocks: list[Block]
    choices: DisplayChoices
    #: (part, kind of its grade, address of the actor).
    actors: list[tuple[Mapping[str, Any], str, str]]
    coverage_url: str
    download_query: str
    first_seq: int
    last_seq: int
    total: int
    #: ``title`` and ``why`` for a page without a change.
    empty: dict[str, str]
    #: The table that is chosen; None: none is.
    of_table: TableEntry | None
    neighbours: Neighbours | None
    #: What the transaction did that is not among its changes, a sentence each.
    apart: list[str]
    #: The reason that the whole cannot be taken back; empty: it can, as far as is known.
    not_undone: str


def read_page(words: QueryDict, row: TransactionRow, slot: Slot) -> TransactionPage:
    """Read the page of a transaction as the address ``words`` asks for it."""
    shown = Shown.from_words(words)
    names = history.relation_names(reading_session(), {int(key) for key in row.relations})
    staged = row.streamed or row.gid
    transitions = transitions_of(reading_session(), [row.id]).get(row.id, ()) if staged else ()
    entries = table_entries(row, names, shown)
    relations = {e.value: e.relation_id for e in entries if e.relation_id is not None}
    spots, last = first_spots(reading_session(), row.id, _SPOTS)
    changes = read_changes(row, slot, shown, relations, last)
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
        blocks=[b for b in changes.blocks if not (shown.only_changed and b.changed_nothing)],
        choices=_choices(shown, "S" if row.state == "snapshot" else "IUDTM"),
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
        not_undone=_not_undone(row, changes),
    )  # fmt: skip


def _choices(shown: Shown, letters: str) -> DisplayChoices:
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
    last: int | None = None,
) -> Changes:
    """One page of its changes, filtered; ``last``: the last change's ordinal, where it is known."""
    kept = bool(row.aborted_changes) and slot.keep_aborted
    wanted = shown.change_filter(relations, with_aborted=kept)
    backwards = shown.before is not None
    if wanted is None:
        return Changes(no_table=True)
    found = read_changes_page(
        reading_session(), row.id, wanted, after=shown.after, before=shown.before,
        limit=PAGE_CHANGES, last=last,
    )  # fmt: skip
    not_undone = transaction_text.NOT_UNDONE.get(row.state, "")
    blocks = blocks_of(found.rows, all_columns=shown.all_columns, not_undone=not_undone)
    hidden = sum(block.changed_nothing for block in blocks) if shown.only_changed else 0
    made = Changes(blocks, hidden=hidden, searched_to=found.searched_to, backwards=backwards)
    at_first = not shown.after and not backwards
    made.whole = at_first and not shown.filtered and not found.more and found.searched_to is None
    _place(made, found, shown, at_first)
    return made


def _place(made: Changes, found: ChangePage, shown: Shown, at_first: bool) -> None:
    backwards = made.backwards
    first_seq = found.rows[0].seq if found.rows else None
    last_seq = found.rows[-1].seq if found.rows else None
    if found.searched_to is not None:
        word = "before" if backwards else "after"
        made.go_on = shown.query_at(**{word: found.searched_to})
    if backwards:
        if found.more and first_seq is not None:
            made.earlier = shown.query_at(before=first_seq)
        if "end" not in shown.place():
            made.later = shown.query_at(after=last_seq or (shown.before or 1) - 1)
    else:
        if found.more and last_seq is not None:
            made.later = shown.query_at(after=last_seq)
        if not at_first:
            made.earlier = shown.query_at(before=first_seq or shown.after + 1)
    made.first = shown.query_at() if made.earlier else ""
    made.last = shown.query_at(end="last") if made.later or made.go_on else ""


def _neighbours(row: TransactionRow, table: TableEntry | None) -> Neighbours | None:
    if table is None or table.relation_id is None or row.commit_seq is None:
        return None
    return neighbours_of(reading_session(), row.incarnation_id, row.commit_seq, table.relation_id)


def _not_undone(row: TransactionRow, changes: Changes) -> str:
    """Why the whole of it cannot be taken back, as far as the page knows that."""
    if problem := transaction_text.NOT_UNDONE.get(row.state):
        return problem
    counted = row.inserts + row.updates + row.deletes + row.truncates
    if not counted:
        return "it changed no row"
    if counted > MOST_CHANGES:
        return f"it has more than {MOST_CHANGES:,} changes"
    problems = [b for b in changes.blocks if b.undo_problem and not b.aborted and b.op in "IUDT"]
    if problems:
        return f"change {problems[0].seq:,}: {problems[0].undo_problem}"
    return ""


def context_lines(context: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """The context, a member a line (a stamp's: ``stamp.application_name``): its text, or JSON
    where it is more than that.
    """
    return [
        (key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2))
        for key, value in transaction_text.flat_context(context)
    ]


def empty_words(row: TransactionRow, shown: Shown, changes: Changes) -> dict[str, str]:
    """Why there is no change on the page."""
    if changes.no_table:
        why = f"This transaction changed nothing of {shown.table}."
        return {"title": "Not touched", "why": why}
    if shown.filtered:
        title, which = "Nothing passes", "of this transaction"
        if changes.searched_to is not None:
            title, which = "Nothing yet", "that was looked at"
        return {"title": title, "why": f"No change {which} passes this filter."}
    reasons = {
        "receiving": "Its first changes are on their way.",
        "streaming": "Its first changes are on their way.",
        "aborted": "The transaction did not commit, and its changes were deleted. The slot’s "
        "option keep_aborted keeps such changes.",
        "skipped": "They were left out of the record by somebody’s decision.",
    }
    reasons["rolled back"] = reasons["aborted"]
    why = reasons.get(row.state, "It changed no published table.")
    return {"title": "No changes here", "why": why}


def apart_words(row: TransactionRow, slot: Slot) -> list[str]:
    """What the transaction did that is not among its changes, a sentence each."""
    if row.state in ("snapshot", "message"):
        return []
    kept = ""
    if row.aborted_changes:
        kept = ": hidden, and deleted once the transaction has ended"
        if slot.keep_aborted:
            kept = ": shown among the changes, struck through"
    return [f"{plural(row.aborted_changes, 'change')} rolled back to a savepoint{kept}."]
