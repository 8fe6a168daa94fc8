"""What the pages of acts on a slot show: what can be chosen, and the plan of what was chosen."""

from collections.abc import Set
from dataclasses import dataclass, replace

from replview.acts.columns import DROP, KEEP, MASK, ColumnChoices, columns_of
from replview.acts.tables import TableChoice, tables_of
from replview.store.models import Slot, WatchedSlot
from replview.ui.managed import EXPECTED, ActPage, trouble_of

#: Tables in one list; more are found by their name.
_LISTED = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPage(ActPage):
    """The page on which a slot is given up."""

    #: Its record stays.
    keep: bool
    #: The slot and its publications stay on the source.
    leave: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptPage(ActPage):
    """The page on which a slot that somebody else made is taken over."""

    slot_name: str
    watched: WatchedSlot
    #: Publications of the database; empty: none, or the slot's plugin reads none.
    publications: tuple[str, ...] = ()
    #: Those of them to read the slot with.
    chosen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTables:
    """The tables of a source that a search finds, with those that are chosen."""

    #: Publications that replview made and may change; empty: the slot reads only those of others.
    own: tuple[str, ...]
    #: Recorded now; at most 300.
    inside: tuple[TableChoice, ...]
    #: Not recorded; at most 300.
    outside: tuple[TableChoice, ...]
    inside_count: int
    outside_count: int
    #: In neither list, though the search finds them.
    more: int
    #: Of the source, whatever the search says.
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesPage(ActPage):
    """The page on which the tables of a slot are changed."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    #: A part of the names that are listed.
    search: str = ""
    #: None: not read, since a confirmation was sent, or the source could not be read.
    choices: ListedTables | None = None

    @property
    def none_ours(self) -> bool:
        """Whether the slot reads only publications of others."""
        return self.choices is not None and not self.choices.own


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsPage(ActPage):
    """The page on which the columns that a slot keeps are changed."""

    #: Whose columns are shown or changed; empty: none was chosen yet.
    table: str = ""
    mask: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    #: None: the statements are shown, or the source could not be read.
    choice: ColumnChoices | None = None
    #: As a form's choices.
    keeping: tuple[tuple[str, str], ...] = ((KEEP, "Keep"), (MASK, "Mask"), (DROP, "Leave out"))


def with_tables(page: TablesPage, slot: Slot) -> TablesPage:
    """Return the page with the tables to choose from, or with why they cannot be read."""
    try:
        return replace(page, choices=_listed(slot, page.search, {*page.add, *page.remove}))
    except EXPECTED as error:
        return replace(page, trouble=trouble_of(error))


def _listed(slot: Slot, search: str, chosen: Set[str]) -> ListedTables:
    found = tables_of(slot)
    wanted = [t for t in found.tables if search.lower() in t.name.lower() or t.name in chosen]
    inside = [table for table in wanted if table.published]
    outside = [table for table in wanted if not table.published]
    return ListedTables(
        own=found.own,
        inside=tuple(inside[:_LISTED]),
        outside=tuple(outside[:_LISTED]),
        inside_count=len(inside),
        outside_count=len(outside),
        more=max(len(inside) - _LISTED, 0) + max(len(outside) - _LISTED, 0),
        total=len(found.tables),
    )


def with_columns(page: ColumnsPage, slot: Slot) -> ColumnsPage:
    """Return the page with the tables or columns to choose from, or with why they are unread."""
    try:
        return replace(page, choice=columns_of(slot, page.table))
    except EXPECTED as error:
        return replace(page, trouble=trouble_of(error))
