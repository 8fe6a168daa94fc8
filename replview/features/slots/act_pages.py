"""Pages of acts on a slot: the choices, and the plan of what was chosen."""

from collections.abc import Set
from dataclasses import dataclass, replace

from replview.acts.columns import DROP, KEEP, MASK, ColumnChoices, columns_of
from replview.acts.tables import PublishableTable, tables_of
from replview.store.models import Slot, WatchedSlot
from replview.ui.managed import EXPECTED, ActPage, trouble_of

#: Most tables in one list; a search finds the others.
_MOST_LISTED = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPage(ActPage):
    """The page that drops a slot."""

    #: True when the record is kept.
    keep: bool
    #: True when the slot and its publications are left on the source.
    leave: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptPage(ActPage):
    """The page that adopts a slot which replview did not create."""

    slot_name: str
    watched: WatchedSlot
    #: Publications of the database; empty if there are none or the plugin uses none.
    publications: tuple[str, ...] = ()
    #: Publications to read the slot with.
    chosen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTables:
    """The tables of a source that match a search or are chosen."""

    #: The slot's publications that replview created and may change.
    own: tuple[str, ...]
    #: Tables that the slot records; at most 300.
    inside: tuple[PublishableTable, ...]
    #: Tables that the slot does not record; at most 300.
    outside: tuple[PublishableTable, ...]
    inside_count: int
    outside_count: int
    #: Number of matching tables that do not fit in the lists.
    more: int
    #: Number of tables of the source.
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTablesPage(ActPage):
    """The page that changes the tables of a slot."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    #: Text that the listed names contain.
    search: str = ""
    #: None if a confirmation was sent, or if the source could not be read.
    choices: ListedTables | None = None

    @property
    def none_ours(self) -> bool:
        """Return whether the slot reads no publication that replview may change."""
        return self.choices is not None and not self.choices.own


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeColumnsPage(ActPage):
    """The page that changes the columns that a slot keeps."""

    #: Table whose columns are shown or changed; empty before one was chosen.
    table: str = ""
    mask: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    #: None when the statements are shown, or if the source could not be read.
    choice: ColumnChoices | None = None
    #: Value and label of each choice for a column.
    keeping: tuple[tuple[str, str], ...] = ((KEEP, "Keep"), (MASK, "Mask"), (DROP, "Leave out"))


def with_tables(page: ChangeTablesPage, slot: Slot) -> ChangeTablesPage:
    """Return the page with the tables to choose from, or with the problem of reading them."""
    try:
        return replace(page, choices=_matching_tables(slot, page.search, {*page.add, *page.remove}))
    except EXPECTED as error:
        return replace(page, trouble=trouble_of(error))


def _matching_tables(slot: Slot, search: str, chosen: Set[str]) -> ListedTables:
    publishable = tables_of(slot)
    matching = [
        candidate
        for candidate in publishable.tables
        if search.lower() in candidate.name.lower() or candidate.name in chosen
    ]
    inside = [table for table in matching if table.published]
    outside = [table for table in matching if not table.published]
    return ListedTables(
        own=publishable.own,
        inside=tuple(inside[:_MOST_LISTED]),
        outside=tuple(outside[:_MOST_LISTED]),
        inside_count=len(inside),
        outside_count=len(outside),
        more=max(len(inside) - _MOST_LISTED, 0) + max(len(outside) - _MOST_LISTED, 0),
        total=len(publishable.tables),
    )


def with_columns(page: ChangeColumnsPage, slot: Slot) -> ChangeColumnsPage:
    """Return the page with tables or columns to choose from, or the problem of reading them."""
    try:
        return replace(page, choice=columns_of(slot, page.table))
    except EXPECTED as error:
        return replace(page, trouble=trouble_of(error))
