"""A plan holds what the hot loop must know of a table, computed once per shape."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import psycopg
from django.conf import settings

from decoder.messages import NoValue, RelationMessage
from replview.receiver.mask_rules import ColumnRules, MaskRules
from replview.receiver.storing.catalog_looks import AlteredTable, CatalogLooks
from replview.receiver.storing.catalog_shapes import CatalogShapes, altered_again, unknown
from replview.receiver.storing.marked_values import MASKED
from replview.store.read.mask_rules import NamedColumn
from replview.store.write.copy_rows import row_table
from replview.store.write.shapes import Made, Shape, StoredShape, note_made, now_text, store_shape

_NAMES = 'SELECT DISTINCT schema, "table" FROM relation_version WHERE relation_id = %s'


class TooManyVersions(Exception):
    """A table, which the exception names, has more versions than are kept of one."""


@dataclass(slots=True, eq=False)
class TablePlan:
    """A plan for writing the changes of one shape of one table."""

    relation: RelationMessage
    relation_id: int
    version_id: int
    names: tuple[str, ...]
    #: Positions of the key's columns; empty: rows cannot be identified.
    key_positions: tuple[int, ...]
    #: Position of the only key column, the usual case; -1: none, or several.
    single_key: int
    #: ``row_table`` bytes by operation.
    heads: dict[str, bytes]
    #: Names that rules apply to: the key's columns, and all columns with their types.
    key_columns: Sequence[str]
    columns: Sequence[NamedColumn]
    #: ``(schema, table)`` of all shapes that the table had: a rule for a former name still masks.
    all_names: Sequence[tuple[str, str]] = ()
    #: Columns that are removed before a row is stored.
    dropped: tuple[str, ...] = ()
    #: Columns whose value is replaced by a mark before a row is stored.
    masked: tuple[str, ...] = ()
    #: True when some column is dropped or masked.
    has_rules: bool = False

    def obey(self, rules: Mapping[str, str]) -> None:
        """Apply these rules to the plan: ``{column: "drop" | "mask"}``."""
        names = self.names
        self.dropped = tuple(name for name in names if rules.get(name) == "drop")
        self.masked = tuple(name for name in names if rules.get(name) == "mask")
        self.has_rules = bool(self.dropped or self.masked)
        # The hash of a value that must not be stored would reveal it.
        keyed = not any(name in rules for name in self.key_columns)
        positions = tuple(map(names.index, self.key_columns)) if keyed else ()
        self.key_positions = positions
        self.single_key = positions[0] if len(positions) == 1 else -1

    def hide(self, row: dict[str, Any]) -> None:
        """Remove what must not be stored from a whole row, in place.

        NULL and the mark of a value that was not sent stay as they are. Every row of a table with
        rules passes through here.
        """
        for name in self.masked:
            value = row[name]
            # Nearly every value is text: one comparison.
            if value.__class__ is str or (value is not None and value.__class__ is not NoValue):
                row[name] = MASKED
        for name in self.dropped:
            del row[name]

    def use_version(self, stored: StoredShape) -> None:
        """Store the next changes under another version of the table."""
        self.version_id = stored.version_id
        self.heads = {op: row_table(self.relation_id, self.version_id, op) for op in "IUDTS"}

    def document(self, values: Sequence[object]) -> dict[str, Any]:
        """Return column → value, without columns that were not sent or must not be stored."""
        row = dict(zip(self.names, values, strict=True))
        if self.has_rules:
            self.hide(row)
        return {name: value for name, value in row.items() if value.__class__ is not NoValue}


class PlannedShape(NamedTuple):
    """A shape that was just stored, its plan, and what the source's catalog showed of it."""

    plan: TablePlan
    stored: StoredShape
    #: Xid of the transaction or subtransaction that sent the shape.
    xid: int | None
    #: The catalog's facts about how the columns were made.
    made: Made
    #: True when the transaction held the table, so that the catalog did not show its alterations.
    held: bool


class _CurrentShape(NamedTuple):
    """The shape of a table that is in force in the store, and how its columns were made."""

    plan: TablePlan
    stored: StoredShape
    made: Made


class TablePlans:
    """The plans of a session, by the decoder's Relation object."""

    def __init__(
        self,
        *,
        slot_id: int,
        system_identifier: str,
        catalog: CatalogShapes,
        column_rules: ColumnRules,
        looks: CatalogLooks | None = None,
    ) -> None:
        """Begin without plans; ``looks`` is None where only descriptions tell of tables."""
        self._slot_id = slot_id
        self._system_identifier = system_identifier
        #: The reader of the source's catalog.
        self.catalog = catalog
        self._looks = looks
        self._rules = MaskRules(slot_id, column_rules)
        # The key is the Relation's id(): hashing it would hash all its columns at each look-up. The
        # plan holds the Relation, so that its id() stays in use.
        self._plans: dict[int, TablePlan] = {}
        #: Table → the keys of its plans in ``_plans``.
        self._of_table: dict[tuple[int, str, str], set[int]] = {}
        self._current: dict[tuple[int, str, str], _CurrentShape] = {}

    def keep_up(self, connection: psycopg.Connection[Any], mark: str | None = None) -> None:
        """Apply the mask rules that the store has now; for ``mark`` see ``MaskRules.read``."""
        if self._rules.read(connection, mark):
            current = (shape.plan for shape in self._current.values())
            for plan in {id(plan): plan for plan in (*self._plans.values(), *current)}.values():
                self._apply(plan)

    def _apply(self, plan: TablePlan) -> None:
        plan.obey(self._rules.of_names(plan.all_names, plan.columns))

    def get(self, relation: RelationMessage) -> TablePlan | None:
        """Return the plan that was made for this very Relation object, or None."""
        return self._plans.get(id(relation))

    def forget_others(self, relation: RelationMessage) -> None:
        """Remove plans of earlier shapes of the table: the decoder will not use them again."""
        of_table = self._of_table.get(table_key(relation), set())
        for stale in of_table - {id(relation)}:
            of_table.remove(stale)
            del self._plans[stale]

    def forget_current(self, relation: RelationMessage) -> None:
        """Forget the table's shape in force: its next description is compared with the store."""
        self._current.pop(table_key(relation), None)

    def _keep(self, plan: TablePlan) -> None:
        self._plans[id(plan.relation)] = plan
        self._of_table.setdefault(table_key(plan.relation), set()).add(id(plan.relation))

    def make(
        self,
        connection: psycopg.Connection[Any],
        relation: RelationMessage,
        *,
        lsn: int,
        xid: int | None,
        top: int | None = None,
        in_force: bool = True,
    ) -> PlannedShape:
        """Store the relation's shape and make a plan for it, inside the store transaction.

        ``xid`` is the (sub)transaction that sent it, ``top`` its transaction. ``in_force`` is False
        if the shape was read from the catalog, apart from the stream. Raises ``TooManyVersions``.
        """
        table = table_key(relation)
        current = self._current.get(table)
        shown, mine, held = self.catalog.made(relation, xid, top, current and current.made)
        made = shown
        if current is not None and current.plan.relation == relation and current.made == shown:
            # This transaction may have altered a column again since it sent the shape.
            made, keys = altered_again(relation, shown, mine), current.plan.key_columns
            if made == shown and not self.catalog.has_other_key(relation, keys, xid):
                plan, stored = self._sent_again(current, relation)
                return PlannedShape(plan, stored, xid, shown, held)
        shape = self.catalog.shape(relation, xid)
        stored = self.store(
            connection, shape, lsn=lsn, xid=xid, top=top, in_force=in_force, made=made
        )
        if held and stored.is_new:
            made = note_made(connection, stored.version_id, unknown(relation))
        names = connection.execute(_NAMES, [stored.relation_id]).fetchall()
        plan = _plan(relation, stored, shape, names)
        self._apply(plan)
        self._keep(plan)
        self._current[table] = _CurrentShape(plan, stored, made)
        return PlannedShape(plan, stored, xid, shown, held)

    def _sent_again(
        self, current: _CurrentShape, relation: RelationMessage
    ) -> tuple[TablePlan, StoredShape]:
        """Keep the plan of an unchanged table for its new Relation object; nothing is stored."""
        plan = replace(current.plan, relation=relation)
        self._keep(plan)
        return plan, replace(current.stored, is_new=False, former=plan.version_id, at=now_text())

    def store(self, connection: psycopg.Connection[Any], shape: Shape, **how: Any) -> StoredShape:
        """Call ``store_shape`` for this slot. Raises ``TooManyVersions``."""
        stored = store_shape(connection, self._slot_id, self._system_identifier, shape, **how)
        if stored.is_new and stored.number > settings.VERSIONS_PER_TABLE:
            raise TooManyVersions(f"{shape.schema}.{shape.table}")
        return stored

    def look(self, store: psycopg.Connection[Any], mark: str) -> None:
        """Ask the catalog which tables were altered without a new description.

        It is asked only where its ``mark`` is another one than before. The store must not be in a
        transaction.
        """
        if self._looks is not None:
            self._looks.look(store, mark)

    def store_altered(
        self, connection: psycopg.Connection[Any], stored_lsn: int
    ) -> list[tuple[AlteredTable, StoredShape]]:
        """Store a version for each table that was altered without a new description.

        Tables that were altered after ``stored_lsn`` wait. Raises ``TooManyVersions``.
        """
        tables = self._looks.take(connection, stored_lsn) if self._looks is not None else []
        versions = []
        for table in tables:
            stored = self.store(connection, table.shape, lsn=table.lsn, xid=None, made=table.made)
            self._go_on_with(stored, table.made)
            versions.append((table, stored))
        return versions

    def _go_on_with(self, stored: StoredShape, made: Made) -> None:
        """Store the next changes of a table under a version that the catalog showed."""
        for plan in self._plans.values():
            if plan.relation_id == stored.relation_id:
                plan.use_version(stored)
        for table, current in self._current.items():
            if current.plan.relation_id == stored.relation_id:
                current.plan.use_version(stored)
                self._current[table] = _CurrentShape(current.plan, stored, made)

    def forget_looks(self, relation: RelationMessage) -> None:
        """Drop what a look found of a table, because the stream has described it since."""
        if self._looks is not None:
            self._looks.forget(relation.oid)


def _plan(
    relation: RelationMessage, stored: StoredShape, shape: Shape, names: Sequence[tuple[str, str]]
) -> TablePlan:
    """Return the plan of a shape, without any mask rule."""
    return TablePlan(
        relation=relation,
        relation_id=stored.relation_id,
        version_id=stored.version_id,
        names=relation.names,
        key_positions=(),
        single_key=-1,
        heads={op: row_table(stored.relation_id, stored.version_id, op) for op in "IUDTS"},
        key_columns=shape.key_columns,
        columns=[NamedColumn(column.name, column.type_name) for column in shape.columns],
        all_names=names,
    )


def table_key(relation: RelationMessage) -> tuple[int, str, str]:
    """Return what identifies the table of a relation: its oid, or else its name."""
    if relation.oid:
        return relation.oid, "", ""
    return 0, relation.namespace, relation.name
