"""A plan holds what the hot loop must know of a table, computed once per shape."""

import base64
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import psycopg
from django.conf import settings

from decoder.events import OpenTransaction
from decoder.messages import NoValue, RelationMessage, Undecoded
from replview.receiver.mask_rules import ColumnRules, MaskRules
from replview.receiver.storing.catalog_looks import AlteredTable, CatalogLooks
from replview.receiver.storing.catalog_shapes import CatalogShapes, unknown
from replview.store.read.mask_rules import NamedColumn
from replview.store.read.relation_shapes import made_anew
from replview.store.write.copy_rows import row_table
from replview.store.write.shapes import (
    Made,
    Shape,
    StoredShape,
    hand_shape_over,
    leave_in_force,
    note_made,
    now_text,
    store_shape,
    take_shape_back,
    withdraw_shape,
)

#: Attempts, and seconds between them, to see the end of a transaction that has committed: other
#: sessions see it a moment after the stream sends it.
_LOOKS = 50
_LOOK_SECONDS = 0.01
_ABORTED = """
    SELECT subxid::bigint FROM aborted_subtransaction WHERE transaction_id = %s AND subxid = ANY(%s)
"""
_MOVE = """
    UPDATE change SET version_id = %s
    WHERE transaction_id = %s AND relation_id = %s AND version_id = %s
"""
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


@dataclass(slots=True)
class _Unsettled:
    """A shape that was sent while its transaction was in progress.

    It may be rolled back, and the catalog did not show yet what the transaction had altered, or
    would still alter.
    """

    plan: TablePlan
    #: Result of storing the shape; ``is_new``: this transaction brought it.
    stored: StoredShape
    #: Xid of the transaction or subtransaction that sent the shape.
    xid: int | None
    #: The catalog's facts at that time about how the columns were made.
    made: Made
    #: True when the shape came into force with the transaction.
    in_force: bool = False
    #: True when the transaction held the table, so that the catalog did not show its alterations.
    held: bool = False
    transaction_id: int | None = None
    #: Everything that has sent this shape, in order: (transaction, subtransaction).
    senders: dict[tuple[int, int | None], None] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Return whether the version itself is in doubt, not only what is altered after it."""
        return self.held or self.in_force


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
        self._catalog = catalog
        self._looks = looks
        self._rules = MaskRules(slot_id, column_rules)
        # The key is the Relation's id(): hashing it would hash all its columns at each look-up. The
        # plan holds the Relation, so that its id() stays in use.
        self._plans: dict[int, TablePlan] = {}
        #: Table → the keys of its plans in ``_plans``.
        self._of_table: dict[tuple[int, str, str], set[int]] = {}
        #: Table → its current shape in the store, and how its columns were made.
        self._current: dict[tuple[int, str, str], tuple[TablePlan, StoredShape, Made]] = {}
        #: Xid → shapes of a transaction in progress; at its end the catalog is queried again.
        self.unsettled: dict[int, list[_Unsettled]] = {}

    def keep_up(self, connection: psycopg.Connection[Any], mark: str | None = None) -> None:
        """Apply the mask rules that the store has now; for ``mark`` see ``MaskRules.read``."""
        if self._rules.read(connection, mark):
            current = (known[0] for known in self._current.values())
            for plan in {id(plan): plan for plan in (*self._plans.values(), *current)}.values():
                self._apply(plan)

    def _apply(self, plan: TablePlan) -> None:
        plan.obey(self._rules.of_names(plan.all_names, plan.columns))

    def get(self, relation: RelationMessage) -> TablePlan | None:
        """Return the plan that was made for this very Relation object, or None."""
        return self._plans.get(id(relation))

    def forget_others(self, relation: RelationMessage) -> None:
        """Remove plans of earlier shapes of the table: the decoder will not use them again."""
        of_table = self._of_table.get(_table(relation), set())
        for stale in of_table - {id(relation)}:
            of_table.remove(stale)
            del self._plans[stale]

    def _keep(self, plan: TablePlan) -> None:
        self._plans[id(plan.relation)] = plan
        self._of_table.setdefault(_table(plan.relation), set()).add(id(plan.relation))

    def make(
        self,
        connection: psycopg.Connection[Any],
        relation: RelationMessage,
        *,
        lsn: int,
        xid: int | None,
        transaction: OpenTransaction | None = None,
        in_force: bool = True,
    ) -> tuple[TablePlan, StoredShape]:
        """Store the relation's shape and make a plan for it, inside the store transaction.

        ``xid`` is the (sub)transaction that sent it. ``in_force`` is False if the shape was read
        from the catalog, apart from the stream. Raises ``TooManyVersions``.
        """
        top = None if transaction is None else transaction.xid
        known = self._current.get(_table(relation))
        made, mine, held = self._catalog.made(relation, xid, top, known and known[2])
        asked = made
        if known is not None and known[0].relation == relation and known[2] == made:
            # This transaction may have altered a column again since it sent the shape.
            again, keys = _altered_again(relation, made, mine), known[0].key_columns
            if again == made and not self._catalog.has_other_key(relation, keys, xid):
                plan, stored = self._sent_again(known[0], known[1], relation)
                self._wait(held, transaction, _Unsettled(plan, stored, xid, asked))
                return plan, stored
            made = again
        shape = self._catalog.shape(relation, xid)
        stored = self._store(
            connection, shape, lsn=lsn, xid=xid, top=top, in_force=in_force, made=made
        )
        if held and stored.is_new:
            made = note_made(connection, stored.version_id, unknown(relation))
        names = connection.execute(_NAMES, [stored.relation_id]).fetchall()
        plan = _plan(relation, stored, shape, names)
        self._apply(plan)
        self._keep(plan)
        self._current[_table(relation)] = plan, stored, made
        self._wait(held, transaction, _Unsettled(plan, stored, xid, asked))
        return plan, stored

    def _sent_again(
        self, plan: TablePlan, stored: StoredShape, relation: RelationMessage
    ) -> tuple[TablePlan, StoredShape]:
        """Keep the plan of an unchanged table for its new Relation object; nothing is stored."""
        plan = replace(plan, relation=relation)
        self._keep(plan)
        return plan, replace(stored, is_new=False, former=plan.version_id, at=now_text())

    def _store(self, connection: psycopg.Connection[Any], shape: Shape, **how: Any) -> StoredShape:
        stored = store_shape(connection, self._slot_id, self._system_identifier, shape, **how)
        if stored.is_new and stored.number > settings.VERSIONS_PER_TABLE:
            raise TooManyVersions(f"{shape.schema}.{shape.table}")
        return stored

    def _wait(self, held: bool, transaction: OpenTransaction | None, one: "_Unsettled") -> None:
        """Register the shape to be settled at the end of its transaction."""
        if transaction is None:
            return
        one.in_force = one.stored.former != one.stored.version_id
        waiting = self.unsettled.get(transaction.xid, [])
        for other in (one, *(each for some in self.unsettled.values() for each in some)):
            if other.stored.version_id == one.stored.version_id:
                other.senders[transaction.xid, one.xid] = None
        one.held = held
        if not (held or one.in_force):
            # The shape is registered only because the transaction may still alter the table: once
            # is enough.
            one.xid = transaction.xid
            if any(each.stored.version_id == one.stored.version_id for each in waiting):
                return
        if held or transaction.kind == "streamed":
            self.unsettled.setdefault(transaction.xid, []).append(one)

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
            stored = self._store(connection, table.shape, lsn=table.lsn, xid=None, made=table.made)
            self._go_on_with(stored, table.made)
            versions.append((table, stored))
        return versions

    def _go_on_with(self, stored: StoredShape, made: Made) -> None:
        """Store the next changes of a table under a version that the catalog showed."""
        for plan in self._plans.values():
            if plan.relation_id == stored.relation_id:
                plan.use_version(stored)
        for table, (plan, _, _) in self._current.items():
            if plan.relation_id == stored.relation_id:
                plan.use_version(stored)
                self._current[table] = plan, stored, made

    def forget_looks(self, relation: RelationMessage) -> None:
        """Drop what a look found of a table, because the stream has described it since."""
        if self._looks is not None:
            self._looks.forget(relation.oid)

    def settle(
        self, connection: psycopg.Connection[Any], top: int | None, state: str,
        transaction_id: int | None = None,
    ) -> None:  # fmt: skip
        """Complete the shapes of a transaction that has ended or was prepared.

        A shape that a rolled-back (sub)transaction brought into force is taken back. The catalog is
        queried again for tables that the transaction held when their shape was sent. (A prepared
        one goes on holding them: how their columns were made is unknown.)

        Where it altered a table, its changes get a shape of their own. Until then, an altered
        column of a table that looks unchanged can be taken for the former one.
        """
        waiting = self.unsettled.pop(top, []) if top is not None else []
        for one in waiting:
            one.transaction_id = transaction_id or one.transaction_id
            if one.is_open:
                self._current.pop(_table(one.plan.relation), None)
        gone = self._rolled_back(connection, waiting, top, state)
        for one in reversed(waiting):
            left = [sender for sender in one.senders if sender[1] not in gone]
            if not left:
                take_shape_back(connection, one.stored)
            elif one.in_force and one.xid in gone:
                self._hand_over(connection, one, left)
        for one in waiting:
            if one.xid not in gone:
                self._ask_again(connection, one, waiting, top, state)
        if state == "prepared" and waiting and top is not None:
            self.unsettled[top] = waiting

    def _hand_over(
        self, connection: psycopg.Connection[Any], one: "_Unsettled",
        left: Sequence[tuple[int, int | None]],
    ) -> None:  # fmt: skip
        """Let a version begin with the next sender of its shape: its first was rolled back."""
        top, xid = left[0]
        hand_shape_over(connection, one.stored, top=top, xid=xid)
        for other in self.unsettled.get(top, []):
            if other.stored.version_id == one.stored.version_id:
                # That sender may be rolled back, too.
                other.stored = replace(other.stored, former=one.stored.former, at=one.stored.at)
                other.xid, other.in_force, other.senders = xid, True, dict.fromkeys(left)
                break

    def _rolled_back(
        self, connection: psycopg.Connection[Any], waiting: Sequence["_Unsettled"],
        top: int | None, state: str,
    ) -> set[int | None]:  # fmt: skip
        """Return which (sub)transactions of the waiting shapes were rolled back."""
        xids = {xid for one in waiting for by, xid in one.senders if by == top}
        if state in ("committed", "prepared") and waiting:
            found = connection.execute(_ABORTED, [waiting[0].transaction_id, list(xids)])
            return {row[0] for row in found}
        return xids if state in ("aborted", "rolled back") else set()

    def _ask_again(
        self, connection: psycopg.Connection[Any], one: "_Unsettled",
        waiting: Sequence["_Unsettled"], top: int | None, state: str,
    ) -> None:  # fmt: skip
        relation, former = one.plan.relation, one.plan.version_id
        self.forget_looks(relation)
        # Columns that the catalog did not show while the table was held come from this transaction.
        before = {name: how for name, how in one.made.items() if how}
        for _ in range(1 if state == "prepared" else _LOOKS):
            made, mine, held = self._catalog.made(relation, one.xid, top, before)
            if not held:
                break
            time.sleep(_LOOK_SECONDS)
        asked = sum(_table(o.plan.relation) == _table(relation) and o.is_open for o in waiting)
        if held:
            made = unknown(relation)
        elif asked > 1:
            # The transaction may have altered the table between its shapes.
            made = _altered_again(relation, made, mine)
        if not one.held and not made_anew(one.made, made):
            return
        one.held = one.held or held
        self._current.pop(_table(relation), None)
        if one.stored.is_new:
            note_made(connection, former, made)
            return
        self._store_again(connection, one, top, made)

    def _store_again(
        self, connection: psycopg.Connection[Any], one: "_Unsettled", top: int | None, made: Made
    ) -> None:
        """Store the shape that the transaction made, and assign its changes to that shape."""
        plan, former = one.plan, one.plan.version_id
        since = withdraw_shape(connection, one.stored)
        shape = self._catalog.shape(plan.relation, one.xid)
        stored = self._store(
            connection, shape, lsn=0, xid=one.xid, top=top, made=made, at=one.stored.at
        )
        if since is not None:
            leave_in_force(connection, stored, since)
        one.stored = replace(stored, former=one.stored.former)
        if stored.version_id != former:
            self._move(connection, one, stored)

    def _move(
        self, connection: psycopg.Connection[Any], one: "_Unsettled", stored: StoredShape
    ) -> None:
        """Assign the transaction's changes of the table to the newly stored version."""
        plan, former = one.plan, one.plan.version_id
        moved = [stored.version_id, one.transaction_id, plan.relation_id, former]
        connection.execute(_MOVE, moved)
        plan.use_version(stored)


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


def _altered_again(relation: RelationMessage, made: Made, mine: set[int | None]) -> Made:
    """Forget the file of columns that these transactions may have altered a second time.

    Rows that are still in the table's first file, which has the table's oid, were never rewritten.
    """
    first = [relation.oid]
    return {
        name: facts[:2] if mine & {*facts[1:2]} and [*facts[2:]] != first else facts
        for name, facts in made.items()
    }


def _table(relation: RelationMessage) -> tuple[int, str, str]:
    """Return what identifies the table of a relation: its oid, or else its name."""
    if relation.oid:
        return relation.oid, "", ""
    return 0, relation.namespace, relation.name


#: Replaces a value that must not be stored; orjson copies it without a call for each.
MASKED = orjson.Fragment(b'{"$masked":true}')


class Aside:
    """A placeholder for a value that is stored in ``large_value``."""

    __slots__ = ("characters",)

    def __init__(self, characters: int) -> None:
        self.characters = characters


def as_json(value: object) -> dict[str, object]:
    """Return the marked JSON form of a value that is not plain text; orjson's ``default``."""
    if isinstance(value, Undecoded):
        name = "$binary" if value.format == "binary" else "$bytes"
        return {name: base64.b64encode(value.raw).decode("ascii"), "$type": value.type_oid}
    if isinstance(value, Aside):
        return {"$aside": value.characters}
    raise TypeError(f"no JSON form for {type(value).__name__}")
