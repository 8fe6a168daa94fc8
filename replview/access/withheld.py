"""What is withheld from whoever takes something out: tables they have no right to see, and columns
that nobody is to see.

An export carries both with its request, as plain data: what is written is what whoever asked could
see then. What files hold already is held against rights and rules when it is shown.
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
#: Of a message that is withheld this is shown.
_MESSAGE_SHOWN = ("prefix", "transactional")


def visible_exports() -> QuerySet[Export]:
    """Of the sources there are for whoever asks; of a slot that is gone for those who see all."""
    sources = current_visibility().sources
    rows = Export.objects.all()
    return rows if sources is None else rows.filter(slot__source__in=sources)


def withholds_text(row: Export) -> bool:
    """Whether it was narrowed by a text that only whoever typed it sees again: it may be a
    value of a table that another has no right to see, or of a column that is masked by now.
    """
    visit = current_visit()
    if visit is None or not row.words.get("q") or current_visibility().open:
        return False
    user = visit.who()
    return user is None or user.get_username() != row.requested_by


def erased_text(erasure_id: int) -> str:
    """What takes the place of a text that narrowed an export, once its rows are erased."""
    return f"erased text {erasure_id}"


def is_erased_text(text: str) -> bool:
    """Whether the text was erased: nobody can search for it again."""
    return _ERASED_TEXT.fullmatch(text) is not None


def shown_words(row: Export) -> dict[str, str]:
    """What it was narrowed by, as far as whoever asks may see it."""
    hidden = ("q",) if withholds_text(row) else ()
    return {name: text for name, text in row.words.items() if name not in hidden}


def shown_slice(row: Export, part: dict[str, Any]) -> dict[str, object]:
    """The same of its slice, or of the one that its manifest tells."""
    if not withholds_text(row) or not part.get("narrowed"):
        return part
    narrowed = {name: value for name, value in part["narrowed"].items() if name != "text"}
    return {**part, "narrowed": narrowed}


def visible_jobs() -> QuerySet[HistoryJob]:
    """The same of history jobs, which name an incarnation of a slot and not the slot."""
    sources = current_visibility().sources
    rows = HistoryJob.objects.all()
    if sources is None:
        return rows
    mine = Q(pk__in=[])
    for name in Source.objects.filter(pk__in=sources).values_list("name", flat=True):
        mine |= Q(words__life__startswith=f"{name}/")
    return rows.filter(mine)


def slot_of_incarnation(incarnation: str) -> Slot | None:
    """The slot of ``source/slot-number``; None: it is gone, or no such incarnation is named."""
    source, _, rest = incarnation.partition("/")
    name = rest.rpartition("-")[0]
    found = Slot.objects.select_related("source").filter(source__name=source, name=name).first()
    if found is None:
        # Files keep the name that the source had when they were written.
        renamed = SlotEvent.objects.filter(
            slot__name=name, detail__act="rename", message__startswith=f"The source {source} is "
        )
        event = renamed.select_related("slot__source").order_by("-pk").first()
        found = event.slot if event else None
    sources = current_visibility().sources
    return found if found and (sources is None or found.source_id in sources) else None


@dataclass(slots=True)
class Withheld:
    """What is withheld of the tables of one slot, by every name they have had."""

    hidden: set[str] = field(default_factory=set)
    masked: dict[str, set[str]] = field(default_factory=dict)
    #: For tables that the record does not know; None: everything may be seen.
    visibility: Visibility | None = None
    #: 0: of a slot that is gone.
    source_id: int = 0
    #: Whose rules count; 0: those for every source alone.
    rules_of: int = 0

    def hides(self, table: str) -> bool:
        if self.visibility is None or table in self.hidden:
            return self.visibility is not None
        schema, _, name = table.partition(".")
        gone = not self.source_id and self.visibility.restricted
        return gone or self.visibility.hides_table(self.source_id, schema, name)

    def columns(self, table: str, names: Iterable[str] = ()) -> frozenset[str]:
        """Those nobody is to see; ``names``: what else the table may have."""
        if self.visibility is None:
            return frozenset()
        shape = [{"name": each} for each in names]
        rules, of = self.visibility.masked_of_table, self.rules_of
        more = (rules(of, *each, shape) for each in table_readings(table))
        return frozenset(self.masked.get(table, ())).union(*more)


def withheld(slot: Slot | None, *, name: str = "") -> Withheld:
    """Of a slot's tables; of a slot that is gone, called ``source/slot``, its source's rules and
    those for every source count, and whoever is restricted sees nothing.
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
    """Tables and columns of an incarnation that nobody is to see, as a history job needs them."""
    found = withheld(slot_of_incarnation(incarnation)).masked
    return {name: sorted(columns) for name, columns in sorted(found.items())}


def shown_counts(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], of: Withheld
) -> list[list[Any]]:
    """Rows that count changes by ``table`` and ``column``, as they may be shown.

    Of a masked column nobody learns whether it changed, and of a table without a right not which
    of its columns did: there one row is left for all of them, without their number.
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
    """Rows of a table as they may be shown: masked columns say so, a hidden table's all do.

    ``names``: a column in the file → on the source, where they differ.
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
            # It may hold the text of such a value.
            cells[raw] = None
        found.append(cells)
    return found


# Changes that are not of the record (of an archive, of a peek into a slot).


def seen_archived(
    change: ChangeRow, source_id: int, of: Withheld, visibility: Visibility
) -> ChangeRow:
    """A change of the archive; ``of`` knows its table under every name it had."""
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
    """A change that waits in a slot, of a table that may not be recorded at all; where it is, what
    is masked under any name it had is.
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
