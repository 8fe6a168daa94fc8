"""Withhold, from exports, archives and files, hidden tables and masked columns.

An export carries both lists with its request, as plain data: its files hold what the requester
could see at that time. Existing files are checked against rights and rules when they are shown.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q, QuerySet

from replview.access.visibility import current_visibility, reading_session
from replview.store.models import (
    Export,
    HistoryJob,
    Relation,
    RelationVersion,
    Slot,
    SlotEvent,
    Source,
)
from replview.store.read.mask_rules import table_readings
from replview.store.read.rows import ChangeRow
from replview.store.read.seen import masked_change
from replview.store.read.table_names import names_had
from replview.store.read.visibility import NO_RIGHT, Visibility
from replview.store.write.access_record import current_visit

_ERASED_TEXT = re.compile(r"erased text \d+", re.ASCII)
#: The fields of a withheld message that are shown.
_MESSAGE_SHOWN = ("prefix", "transactional")


def visible_exports() -> QuerySet[Export]:
    """Return the exports of visible sources; those of a deleted slot need a right on all."""
    sources = current_visibility().sources
    rows = Export.objects.all()
    return rows if sources is None else rows.filter(slot__source__in=sources)


def withholds_text(row: Export) -> bool:
    """Return whether the export's search text is withheld from everybody but its requester.

    It may be a value of a table that another account must not see, or of a column masked since.
    """
    visit = current_visit()
    if visit is None or not row.words.get("q") or current_visibility().open:
        return False
    user = visit.who()
    return user is None or user.get_username() != row.requested_by


def erased_text(erasure_id: int) -> str:
    """Return the replacement for an export's search text once its rows are erased."""
    return f"erased text {erasure_id}"


def is_erased_text(text: str) -> bool:
    """Return whether the text was erased, so that nobody can search for it again."""
    return _ERASED_TEXT.fullmatch(text) is not None


def shown_words(row: Export) -> dict[str, str]:
    """Return the export's conditions, as far as the current visitor may see them."""
    hidden = ("q",) if withholds_text(row) else ()
    return {name: text for name, text in row.words.items() if name not in hidden}


def shown_slice(row: Export, part: dict[str, Any]) -> dict[str, object]:
    """Return the export's slice, or that of its manifest, without a withheld search text."""
    if not withholds_text(row) or not part.get("narrowed"):
        return part
    narrowed = {name: value for name, value in part["narrowed"].items() if name != "text"}
    return {**part, "narrowed": narrowed}


def visible_jobs() -> QuerySet[HistoryJob]:
    """Return the history jobs of visible sources; a job names an incarnation, not a slot."""
    sources = current_visibility().sources
    rows = HistoryJob.objects.all()
    if sources is None:
        return rows
    mine = Q(pk__in=[])
    for name in Source.objects.filter(pk__in=sources).values_list("name", flat=True):
        mine |= Q(words__life__startswith=f"{name}/")
    return rows.filter(mine)


def slot_of_incarnation(incarnation: str) -> Slot | None:
    """Return the visible slot of ``source/slot-number``; None where it is gone or not named."""
    source, _, rest = incarnation.partition("/")
    name = rest.rpartition("-")[0]
    found = Slot.objects.select_related("source").filter(source__name=source, name=name).first()
    if found is None:
        # Files keep the source's name at the time when they were written.
        renamed = SlotEvent.objects.filter(
            slot__name=name, detail__act="rename", message__startswith=f"The source {source} is "
        )
        event = renamed.select_related("slot__source").order_by("-pk").first()
        found = event.slot if event else None
    sources = current_visibility().sources
    return found if found and (sources is None or found.source_id in sources) else None


@dataclass(slots=True)
class Withheld:
    """The hidden tables and masked columns of one slot, under every name that tables have had."""

    hidden: set[str] = field(default_factory=set)
    masked: dict[str, set[str]] = field(default_factory=dict)
    #: Decides about tables that the record does not know; None where everything is visible.
    visibility: Visibility | None = None
    #: 0 for a deleted slot.
    source_id: int = 0
    #: The id of the source whose rules count; 0 for the rules of every source only.
    rules_of: int = 0

    def hides(self, table: str) -> bool:
        """Return whether a table is hidden; a restricted visitor sees none of a deleted slot."""
        if self.visibility is None or table in self.hidden:
            return self.visibility is not None
        schema, _, name = table.partition(".")
        gone = not self.source_id and self.visibility.restricted
        return gone or self.visibility.hides_table(self.source_id, schema, name)

    def columns(self, table: str, names: Iterable[str] = ()) -> frozenset[str]:
        """Return the table's masked columns; ``names`` are columns that only the caller knows."""
        if self.visibility is None:
            return frozenset()
        shape = [{"name": each} for each in names]
        rules, of = self.visibility.masked_of_table, self.rules_of
        more = (rules(of, *each, shape) for each in table_readings(table))
        return frozenset(self.masked.get(table, ())).union(*more)


def withheld(slot: Slot | None, *, name: str = "") -> Withheld:
    """Return what is withheld of a slot's tables.

    For a deleted slot, called ``source/slot``, the rules of its source and of every source count,
    and a restricted visitor sees nothing.
    """
    visibility = current_visibility()
    if visibility.open:
        return Withheld()
    found = Withheld(visibility=visibility, source_id=slot.source_id if slot else 0)
    found.rules_of = found.source_id
    if slot is None:
        source = Source.objects.filter(name=name.partition("/")[0]).first()
        found.rules_of = source.pk if source else 0
        return found
    names = {relation.pk: {str(relation)} for relation in Relation.objects.filter(slot=slot)}
    versions = RelationVersion.objects.filter(relation__slot=slot)
    for pk, schema, table in versions.values_list("relation_id", "schema", "table"):
        names[pk].add(f"{schema}.{table}")
    visibility.learn(list(names))
    for pk, mine in names.items():
        if visibility.hides(pk):
            found.hidden |= mine
        for name in mine:
            found.masked.setdefault(name, set()).update(visibility.masked(pk))
    found.masked = {name: columns for name, columns in found.masked.items() if columns}
    return found


def masked_for(incarnation: str) -> dict[str, list[str]]:
    """Return an incarnation's tables and masked columns, in the form of a history job."""
    found = withheld(slot_of_incarnation(incarnation)).masked
    return {name: sorted(columns) for name, columns in sorted(found.items())}


def shown_counts(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], of: Withheld
) -> list[list[Any]]:
    """Return rows that count changes by ``table`` and ``column``, as they may be shown.

    Rows of a masked column are left out, because they show that it changed. The columns of a hidden
    table are merged into one row without a count.
    """
    table, column = columns.index("table"), columns.index("column")
    found: dict[tuple[Any, ...], list[Any]] = {}
    for number, row in enumerate(rows):
        cells, name = list(row), row[column]
        if name is not None and of.hides(str(row[table])):
            cells[column] = NO_RIGHT
            if "changes" in columns:
                cells[columns.index("changes")] = None
            found.setdefault(tuple(cells), cells)
        elif name is None or name not in of.columns(str(row[table]), [str(name)]):
            found[(number,)] = cells
    return list(found.values())


def shown_cells(
    table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], of: Withheld,
    names: Mapping[str, str] | None = None,
) -> list[list[Any]]:  # fmt: skip
    """Return rows of a table as they may be shown, with masked and hidden cells replaced.

    ``names``: a column in the file → its name on the source, where they differ.
    """
    own = names or {}
    source = [own.get(column, column) for column in columns]
    masked, hidden = of.columns(table, source), of.hides(table)
    place = {n for n, name in enumerate(source) if name in masked}
    raw = columns.index("_pg_raw") if "_pg_raw" in columns else None
    found = []
    for row in rows:
        cells = ["masked" if n in place else value for n, value in enumerate(row)]
        if hidden:
            cells = [cell if column.startswith("_") else NO_RIGHT
                     for column, cell in zip(columns, cells, strict=False)]  # fmt: skip
        if raw is not None and (hidden or place):
            # The raw text may contain a masked value.
            cells[raw] = None
        found.append(cells)
    return found


# The changes below are not in the record: they come from an archive or a peek into a slot.


def seen_archived(
    change: ChangeRow, source_id: int, of: Withheld, visibility: Visibility
) -> ChangeRow:
    """Return an archived change as visible; ``of`` knows its table under every name it had."""
    if visibility.open:
        return change
    if change.op == "M":
        return _seen(change, hidden=visibility.hides_messages(source_id))
    schema, table = change.schema or "", change.table or ""
    name = f"{schema}.{table}"
    hidden = of.hides(name) or visibility.hides_table(source_id, schema, table)
    masked = of.columns(name) | visibility.masked_of_table(source_id, schema, table, change.columns)
    return _seen(change, hidden=hidden, masked=masked)


def seen_peeked(change: ChangeRow, source_id: int, visibility: Visibility) -> ChangeRow:
    """Return a change that waits in a slot, as visible.

    Its table may not be recorded. Where it is, columns masked under any of its names are masked.
    """
    if visibility.open:
        return change
    if change.op == "M":
        return _seen(change, hidden=visibility.hides_messages(source_id))
    schema, table = change.schema or "", change.table or ""
    names = dict.fromkeys([*(change.old or {}), *(change.new or {}), *change.key_columns])
    columns = [{"name": name} for name in names]
    called = names_had(reading_session(), source_id, schema, table)
    masked = (visibility.masked_of_table(source_id, *each, columns) for each in called)
    hidden = visibility.hides_table(source_id, schema, table)
    return _seen(change, hidden=hidden, masked=frozenset().union(*masked))


def _seen(change: ChangeRow, *, hidden: bool, masked: Set[str] = frozenset()) -> ChangeRow:
    if change.op == "T" or not (hidden or masked):
        return change
    if hidden and change.op == "M":
        shown = {name: v for name, v in (change.new or {}).items() if name in _MESSAGE_SHOWN}
        return change._replace(new=shown, hidden=True)
    if hidden:
        return change._replace(old=None, new=None, columns=[], key_columns=[], hidden=True)
    return masked_change(change, masked)
