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
_SHOWN_MESSAGE_FIELDS = ("prefix", "transactional")


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


def shown_slice(row: Export, document: dict[str, Any]) -> dict[str, object]:
    """Return the export's slice, or that of its manifest, without a withheld search text."""
    if not withholds_text(row) or not document.get("narrowed"):
        return document
    narrowed = {name: value for name, value in document["narrowed"].items() if name != "text"}
    return {**document, "narrowed": narrowed}


def visible_jobs() -> QuerySet[HistoryJob]:
    """Return the history jobs of visible sources; a job names an incarnation, not a slot."""
    sources = current_visibility().sources
    rows = HistoryJob.objects.all()
    if sources is None:
        return rows
    condition = Q(pk__in=[])
    for name in Source.objects.filter(pk__in=sources).values_list("name", flat=True):
        condition |= Q(words__incarnation__startswith=f"{name}/")
    return rows.filter(condition)


def slot_of_incarnation(incarnation: str) -> Slot | None:
    """Return the visible slot of ``source/slot-number``; None where it is gone or not named."""
    source, _, numbered_slot = incarnation.partition("/")
    name = numbered_slot.rpartition("-")[0]
    slot = Slot.objects.select_related("source").filter(source__name=source, name=name).first()
    if slot is None:
        # Files keep the source's name at the time when they were written.
        renamed = SlotEvent.objects.filter(
            slot__name=name, detail__act="rename", detail__former=source
        )
        event = renamed.select_related("slot__source").order_by("-pk").first()
        slot = event.slot if event else None
    sources = current_visibility().sources
    return slot if slot and (sources is None or slot.source_id in sources) else None


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
        hidden_with_slot = not self.source_id and self.visibility.restricted
        return hidden_with_slot or self.visibility.hides_table(self.source_id, schema, name)

    def columns(self, table: str, names: Iterable[str] = ()) -> frozenset[str]:
        """Return the table's masked columns; ``names`` are columns that only the caller knows."""
        if self.visibility is None:
            return frozenset()
        columns = [{"name": name} for name in names]
        masked_of_table, source_id = self.visibility.masked_of_table, self.rules_of
        by_rules = (
            masked_of_table(source_id, *reading, columns) for reading in table_readings(table)
        )
        return frozenset(self.masked.get(table, ())).union(*by_rules)


def withheld(slot: Slot | None, *, name: str = "") -> Withheld:
    """Return what is withheld of a slot's tables.

    For a deleted slot, called ``source/slot``, the rules of its source and of every source count,
    and a restricted visitor sees nothing.
    """
    visibility = current_visibility()
    if visibility.open:
        return Withheld()
    result = Withheld(visibility=visibility, source_id=slot.source_id if slot else 0)
    result.rules_of = result.source_id
    if slot is None:
        source = Source.objects.filter(name=name.partition("/")[0]).first()
        result.rules_of = source.pk if source else 0
        return result
    names_by_relation = {
        relation.pk: {str(relation)} for relation in Relation.objects.filter(slot=slot)
    }
    versions = RelationVersion.objects.filter(relation__slot=slot)
    for relation_id, schema, table in versions.values_list("relation_id", "schema", "table"):
        names_by_relation[relation_id].add(f"{schema}.{table}")
    visibility.learn(list(names_by_relation))
    for relation_id, names in names_by_relation.items():
        if visibility.hides(relation_id):
            result.hidden |= names
        for table_name in names:
            result.masked.setdefault(table_name, set()).update(visibility.masked(relation_id))
    result.masked = {name: columns for name, columns in result.masked.items() if columns}
    return result


def masked_for(incarnation: str) -> dict[str, list[str]]:
    """Return an incarnation's tables and masked columns, in the form of a history job."""
    masked = withheld(slot_of_incarnation(incarnation)).masked
    return {name: sorted(columns) for name, columns in sorted(masked.items())}


def shown_counts(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], restrictions: Withheld
) -> list[list[Any]]:
    """Return rows that count changes by ``table`` and ``column``, as they may be shown.

    Rows of a masked column are left out, because they show that it changed. The columns of a hidden
    table are merged into one row without a count.
    """
    table_index, column_index = columns.index("table"), columns.index("column")
    shown_rows: dict[tuple[Any, ...], list[Any]] = {}
    for number, row in enumerate(rows):
        cells, column_name = list(row), row[column_index]
        if column_name is not None and restrictions.hides(str(row[table_index])):
            cells[column_index] = NO_RIGHT
            if "changes" in columns:
                cells[columns.index("changes")] = None
            shown_rows.setdefault(tuple(cells), cells)
        elif column_name is None or column_name not in restrictions.columns(
            str(row[table_index]), [str(column_name)]
        ):
            shown_rows[(number,)] = cells
    return list(shown_rows.values())


def shown_cells(
    table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], restrictions: Withheld,
    names: Mapping[str, str] | None = None,
) -> list[list[Any]]:  # fmt: skip
    """Return rows of a table as they may be shown, with masked and hidden cells replaced.

    ``names``: a column in the file → its name on the source, where they differ.
    """
    source_names = names or {}
    source_columns = [source_names.get(column, column) for column in columns]
    masked, hidden = restrictions.columns(table, source_columns), restrictions.hides(table)
    masked_indexes = {index for index, name in enumerate(source_columns) if name in masked}
    raw_index = columns.index("_pg_raw") if "_pg_raw" in columns else None
    shown_rows = []
    for row in rows:
        cells = ["masked" if index in masked_indexes else value for index, value in enumerate(row)]
        if hidden:
            cells = [cell if column.startswith("_") else NO_RIGHT
                     for column, cell in zip(columns, cells, strict=False)]  # fmt: skip
        if raw_index is not None and (hidden or masked_indexes):
            # The raw text may contain a masked value.
            cells[raw_index] = None
        shown_rows.append(cells)
    return shown_rows


# The changes below are not in the record: they come from an archive or a peek into a slot.


def seen_archived(
    change: ChangeRow, source_id: int, restrictions: Withheld, visibility: Visibility
) -> ChangeRow:
    """Return an archived change as visible; ``restrictions`` cover every name its table had."""
    if visibility.open:
        return change
    if change.op == "M":
        return _visible_change(change, hidden=visibility.hides_messages(source_id))
    schema, table = change.schema or "", change.table or ""
    name = f"{schema}.{table}"
    hidden = restrictions.hides(name) or visibility.hides_table(source_id, schema, table)
    masked = restrictions.columns(name) | visibility.masked_of_table(
        source_id, schema, table, change.columns
    )
    return _visible_change(change, hidden=hidden, masked=masked)


def seen_peeked(change: ChangeRow, source_id: int, visibility: Visibility) -> ChangeRow:
    """Return a change that waits in a slot, as visible.

    Its table may not be recorded. Where it is, columns masked under any of its names are masked.
    """
    if visibility.open:
        return change
    if change.op == "M":
        return _visible_change(change, hidden=visibility.hides_messages(source_id))
    schema, table = change.schema or "", change.table or ""
    names = dict.fromkeys([*(change.old or {}), *(change.new or {}), *change.key_columns])
    columns = [{"name": name} for name in names]
    table_names = names_had(reading_session(), source_id, schema, table)
    masked = (
        visibility.masked_of_table(source_id, *table_name, columns) for table_name in table_names
    )
    hidden = visibility.hides_table(source_id, schema, table)
    return _visible_change(change, hidden=hidden, masked=frozenset().union(*masked))


def _visible_change(
    change: ChangeRow, *, hidden: bool, masked: Set[str] = frozenset()
) -> ChangeRow:
    if change.op == "T" or not (hidden or masked):
        return change
    if hidden and change.op == "M":
        shown = {
            name: value
            for name, value in (change.new or {}).items()
            if name in _SHOWN_MESSAGE_FIELDS
        }
        return change._replace(new=shown, hidden=True)
    if hidden:
        return change._replace(old=None, new=None, columns=[], key_columns=[], hidden=True)
    return masked_change(change, masked)
