"""Which changes somebody wants: the words of a filter of transactions, and more of their own.

The same words in pages, downloads, the API and the command line: those of ``TransactionFilter``
(``table`` is one of ``tables``), ``where`` (a condition on values), ``transaction`` (one, by its
identifier in the store).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from replview.store.read.mask_rules import table_readings
from replview.store.read.relation_shapes import VersionShape, shapes_named, shapes_of_slot
from replview.store.read.rows import Slot
from replview.store.read.session import ReadSession
from replview.store.read.transactions.conditions import Conditions, conditions_of
from replview.store.read.transactions.transaction_filter import OPERATIONS, TransactionFilter
from replview.store.read.value_filter import ValueFilter, WhereProblem
from replview.store.read.visibility import NO_RIGHT
from replview.text.parsing import whole_number

#: States whose changes count and have a place in history.
COUNTED = ("committed", "message", "snapshot")


@dataclass(frozen=True, kw_only=True)
class WantedChanges:
    """An empty one wants everything of its slot."""

    slot: Slot
    filter: TransactionFilter = field(default_factory=TransactionFilter)
    where: ValueFilter = field(default_factory=ValueFilter)
    #: One transaction alone.
    transaction_id: int | None = None
    #: What was not understood, in a sentence; empty: all was.
    trouble: str = ""
    #: Once they were read.
    _shapes: list[VersionShape] | None = field(
        default=None, init=False, repr=False, compare=False, hash=False
    )

    @classmethod
    def from_words(cls, slot: Slot, words: Mapping[str, object]) -> Self:
        """Read an address's parameters or a command's options; never raises."""
        given = dict(words.items())
        tables = ",".join(str(given[name]) for name in ("tables", "table") if given.get(name))
        wanted = TransactionFilter.from_words({**given, "tables": tables, "slot": str(slot)})
        trouble = f"not understood: {', '.join(wanted.misread)}" if wanted.misread else ""
        try:
            where = ValueFilter.parse(str(given.get("where") or ""))
        except WhereProblem as error:
            where, trouble = ValueFilter(), str(error)
        number = whole_number(given.get("transaction") or "")
        return cls(slot=slot, filter=wanted, where=where, transaction_id=number, trouble=trouble)

    def words(self) -> dict[str, str]:
        """Return the words that are set, as ``from_words`` reads them."""
        words = self.filter.words() | {"slot": str(self.slot)}
        if self.where:
            words["where"] = str(self.where)
        if self.transaction_id is not None:
            words["transaction"] = str(self.transaction_id)
        return words

    @property
    def ops(self) -> str:
        """The operations that are wanted; a condition on values is about rows."""
        return "".join(o for o in self.filter.ops if o in "IUDS") if self.where else self.filter.ops

    def shapes(self, session: ReadSession) -> list[VersionShape]:
        """All shapes of the tables it is about, read once; of all tables where it names none."""
        if self._shapes is None:
            names, slot = self.filter.tables, self.slot
            found = shapes_named(session, slot, names) if names else shapes_of_slot(session, slot)
            object.__setattr__(self, "_shapes", found)
        return self._shapes or []

    def table(self, session: ReadSession) -> tuple[str, str] | None:
        if len(self.filter.tables) != 1:
            return None
        readings = table_readings(self.filter.tables[0])
        called = {(shape.schema, shape.table) for shape in self.shapes(session)}
        return next((each for each in readings if each in called), next(iter(readings), None))

    def relation_ids(self, session: ReadSession) -> list[int] | None:
        """The tables it is about; None: all."""
        if not self.filter.tables:
            return None
        return sorted({shape.relation_id for shape in self.shapes(session)})


def searchable(session: ReadSession, wanted: WantedChanges) -> list[VersionShape]:
    """Return the shapes of tables whose values may be searched. Raises ``WhereProblem`` where a
    column that is asked for is masked, or all tables are hidden: an empty answer would mislead.
    """
    shapes, visibility = wanted.shapes(session), session.visibility
    if visibility.open:
        return shapes
    visibility.learn({shape.relation_id for shape in shapes})
    seen = [shape for shape in shapes if not visibility.hides(shape.relation_id)]
    if shapes and (not seen or (wanted.filter.tables and len(seen) < len(shapes))):
        hidden = next(shape for shape in shapes if visibility.hides(shape.relation_id))
        raise WhereProblem(f"you have {NO_RIGHT} of {hidden.schema}.{hidden.table}")
    for shape in seen:
        masked = visibility.masked(shape.relation_id).intersection(wanted.where.columns)
        if masked & {str(column["name"]) for column in shape.columns}:
            name = f"{min(masked)} of {shape.schema}.{shape.table}"
            more = "" if wanted.filter.tables else "; name the tables to search"
            raise WhereProblem(f"{name} is masked: nobody can look for its values{more}")
    return seen


def conditions_on_transactions(session: ReadSession, wanted: WantedChanges) -> Conditions:
    """What is asked of transactions and of whole blocks, but for tables and operations."""
    # A table is looked for under all names it had, and operations among its changes.
    return conditions_of(session, replace(wanted.filter, tables=(), ops=OPERATIONS))


def transaction_sql(
    session: ReadSession, wanted: WantedChanges, relation_ids: list[int] | None
) -> tuple[str, dict[str, Any]]:
    """Return the condition on rows of ``transaction t``, with its parameters."""
    conditions = conditions_on_transactions(session, wanted)
    parts = [conditions.row_sql, "t.state = ANY(%(counted)s)"]
    values = {**conditions.values, "counted": list(COUNTED)}
    if relation_ids is not None:
        parts.append("t.relations ?| %(keys)s")
        values["keys"] = [str(key) for key in relation_ids]
    if wanted.transaction_id is not None:
        parts.append("t.id = %(transaction_id)s")
        values["transaction_id"] = wanted.transaction_id
    return " AND ".join(parts), values
