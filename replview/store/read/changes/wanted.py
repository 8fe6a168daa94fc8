"""The changes that a user asks for: a transaction filter with further parameters.

Pages, downloads, the API and the command line share them: those of ``TransactionFilter`` (``table``
is one of ``tables``), ``where`` (a condition on values) and ``transaction`` (the identifier of
one).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from psycopg import sql

from replview.store.read.mask_rules import table_readings
from replview.store.read.relation_shapes import VersionShape, shapes_named, shapes_of_slot
from replview.store.read.rows import QueriedSlot
from replview.store.read.session import ReadSession
from replview.store.read.transactions.conditions import Conditions
from replview.store.read.transactions.filter_values import OPERATIONS
from replview.store.read.transactions.transaction_filter import TransactionFilter, conditions_of
from replview.store.read.value_filter import ValueFilter, WhereProblem
from replview.store.read.visibility import NO_RIGHT
from replview.text.parsing import whole_number

#: States of transactions whose changes count and have a place in history.
COUNTED = ("committed", "message", "snapshot")


@dataclass(frozen=True, kw_only=True)
class WantedChanges:
    """A filter of the changes of one slot; without conditions it matches all of them."""

    slot: QueriedSlot
    filter: TransactionFilter = field(default_factory=TransactionFilter)
    where: ValueFilter = field(default_factory=ValueFilter)
    #: Identifier of the only transaction to read; None: all.
    transaction_id: int | None = None
    #: Sentence about what was not understood; empty: all was.
    trouble: str = ""
    #: The result of ``shapes``, once it was read.
    _shapes: list[VersionShape] | None = field(
        default=None, init=False, repr=False, compare=False, hash=False
    )

    @classmethod
    def from_words(cls, slot: QueriedSlot, words: Mapping[str, object]) -> Self:
        """Read the parameters of an address or the options of a command; never raises."""
        params = dict(words.items())
        tables = ",".join(str(params[name]) for name in ("tables", "table") if params.get(name))
        filter_ = TransactionFilter.from_words({**params, "tables": tables, "slot": str(slot)})
        trouble = f"not understood: {', '.join(filter_.misread)}" if filter_.misread else ""
        try:
            where = ValueFilter.parse(str(params.get("where") or ""))
        except WhereProblem as error:
            where, trouble = ValueFilter(), str(error)
        number = whole_number(params.get("transaction") or "")
        return cls(slot=slot, filter=filter_, where=where, transaction_id=number, trouble=trouble)

    def words(self) -> dict[str, str]:
        """Return the parameters that are set, in the form that ``from_words`` reads."""
        parameters = self.filter.words() | {"slot": str(self.slot)}
        if self.where:
            parameters["where"] = str(self.where)
        if self.transaction_id is not None:
            parameters["transaction"] = str(self.transaction_id)
        return parameters

    @property
    def ops(self) -> str:
        """Return the wanted operations; a condition on values restricts them to those on rows."""
        return "".join(o for o in self.filter.ops if o in "IUDS") if self.where else self.filter.ops

    def shapes(self, session: ReadSession) -> list[VersionShape]:
        """Return all shapes of the named tables, or of all tables if none is named; read once."""
        if self._shapes is None:
            names, slot = self.filter.tables, self.slot
            shapes = shapes_named(session, slot, names) if names else shapes_of_slot(session, slot)
            object.__setattr__(self, "_shapes", shapes)
        return self._shapes or []

    def table(self, session: ReadSession) -> tuple[str, str] | None:
        """Return (schema, table) if exactly one table is named, preferring one that is recorded."""
        if len(self.filter.tables) != 1:
            return None
        readings = table_readings(self.filter.tables[0])
        recorded_names = {(shape.schema, shape.table) for shape in self.shapes(session)}
        return next(
            (name for name in readings if name in recorded_names), next(iter(readings), None)
        )

    def relation_ids(self, session: ReadSession) -> list[int] | None:
        """Return the identifiers of the named tables; None: all tables."""
        if not self.filter.tables:
            return None
        return sorted({shape.relation_id for shape in self.shapes(session)})


def searchable(session: ReadSession, wanted: WantedChanges) -> list[VersionShape]:
    """Return the shapes of tables whose values may be searched.

    Raises ``WhereProblem`` where a column in a condition is masked, or where a table is hidden: an
    empty result would mislead.
    """
    shapes, visibility = wanted.shapes(session), session.visibility
    if visibility.open:
        return shapes
    visibility.learn({shape.relation_id for shape in shapes})
    visible = [shape for shape in shapes if not visibility.hides(shape.relation_id)]
    if shapes and (not visible or (wanted.filter.tables and len(visible) < len(shapes))):
        hidden = next(shape for shape in shapes if visibility.hides(shape.relation_id))
        raise WhereProblem(f"you have {NO_RIGHT} of {hidden.schema}.{hidden.table}")
    for shape in visible:
        masked = visibility.masked(shape.relation_id).intersection(wanted.where.columns)
        if masked & {str(column["name"]) for column in shape.columns}:
            name = f"{min(masked)} of {shape.schema}.{shape.table}"
            hint = "" if wanted.filter.tables else "; name the tables to search"
            raise WhereProblem(f"column {name} is masked, so its values cannot be searched{hint}")
    return visible


def conditions_on_transactions(session: ReadSession, wanted: WantedChanges) -> Conditions:
    """Return the conditions on transactions and blocks, except those on tables and operations."""
    # Tables are matched under all the names they had, and operations on the changes themselves.
    return conditions_of(session, replace(wanted.filter, tables=(), ops=OPERATIONS))


def scan_conditions(
    session: ReadSession, wanted: WantedChanges, relation_ids: list[int] | None
) -> Conditions:
    """Return the conditions on transactions that a scan reads; those on blocks are the same."""
    conditions = conditions_on_transactions(session, wanted)
    conditions.rows.append(sql.SQL("t.state = ANY(%(counted)s)"))
    conditions.values["counted"] = list(COUNTED)
    if relation_ids is not None:
        conditions.rows.append(sql.SQL("t.relations ?| %(keys)s"))
        conditions.values["keys"] = [str(key) for key in relation_ids]
    if wanted.transaction_id is not None:
        conditions.rows.append(sql.SQL("t.id = %(transaction_id)s"))
        conditions.values["transaction_id"] = wanted.transaction_id
    return conditions
