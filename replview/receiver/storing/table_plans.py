"""What the hot loop must know of a table, worked out once per shape."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
import psycopg

from decoder.messages import NoValue, Relation, Undecoded
from replview.catalog.stream_shape import ColumnsMade, is_later
from replview.receiver.mask_rules import ColumnRules, MaskRules
from replview.receiver.source_catalog import NamedTables
from replview.store.read.mask_rules import NamedColumn
from replview.store.write.copy_rows import row_table
from replview.store.write.shapes import ColumnShape, Made, Shape, StoredShape, store_shape

#: Answers for a table's primary key, the names of types and what they are over, from the source's
#: catalog.
PrimaryKeyReader = Callable[[int, int | None], Sequence[str] | None]
TypeNameReader = Callable[[Sequence[tuple[int, int]]], Mapping[tuple[int, int], str]]
#: Answers what ``catalog.stream_shape.columns_made`` does; None where the catalog cannot be asked.
ColumnsMadeReader = Callable[[int], ColumnsMade | None]
TypeBaseReader = Callable[[Sequence[int]], Mapping[int, dict[str, Any]]]

_NAMES = 'SELECT DISTINCT schema, "table" FROM relation_version WHERE relation_id = %s'


@dataclass(slots=True, eq=False)
class TablePlan:
    """How to write the changes of one shape of one table."""

    relation: Relation
    relation_id: int
    version_id: int
    names: tuple[str, ...]
    #: Where the key's columns are; empty: rows cannot be told apart.
    key_positions: tuple[int, ...]
    #: The one key column's position, the usual case; -1: none, or several.
    single_key: int
    #: ``row_table`` bytes by operation.
    heads: dict[str, bytes]
    #: What the rules were asked of: the key's columns, and all columns with their types.
    key_columns: Sequence[str]
    columns: Sequence[NamedColumn]
    #: ``(schema, table)`` of all shapes the table had: what was masked under a former name is.
    all_names: Sequence[tuple[str, str]] = ()
    #: Columns to leave out before anything is kept.
    dropped: tuple[str, ...] = ()
    #: Columns whose value is replaced by a mark.
    masked: tuple[str, ...] = ()
    #: Some column is dropped or masked.
    has_rules: bool = False

    def obey(self, rules: Mapping[str, str]) -> None:
        """Leave columns out, and mask them, by these rules: ``{column: "drop" | "mask"}``."""
        names = self.names
        self.dropped = tuple(name for name in names if rules.get(name) == "drop")
        self.masked = tuple(name for name in names if rules.get(name) == "mask")
        self.has_rules = bool(self.dropped or self.masked)
        # A hash of a value that must not be kept would betray it.
        keyed = not any(name in rules for name in self.key_columns)
        positions = tuple(map(names.index, self.key_columns)) if keyed else ()
        self.key_positions = positions
        self.single_key = positions[0] if len(positions) == 1 else -1

    def hide(self, row: dict[str, Any]) -> None:
        """Remove from a whole row what must not be kept, in place; every row of a table with rules
        comes here. NULL stays NULL, and what was not sent stays so.
        """
        for name in self.masked:
            value = row[name]
            # Nearly every value is text: one look.
            if value.__class__ is str or (value is not None and value.__class__ is not NoValue):
                row[name] = MASKED
        for name in self.dropped:
            del row[name]

    def document(self, values: Sequence[object]) -> dict[str, Any]:
        """Column → value without the columns that were not sent or must not be kept."""
        row = dict(zip(self.names, values, strict=True))
        if self.has_rules:
            self.hide(row)
        return {name: value for name, value in row.items() if value.__class__ is not NoValue}


class TablePlans:
    """The plans of a session, by the decoder's Relation object."""

    def __init__(
        self,
        *,
        slot_id: int,
        system_identifier: str,
        primary_key: PrimaryKeyReader,
        type_names: TypeNameReader,
        type_bases: TypeBaseReader,
        column_rules: ColumnRules,
        named: NamedTables | None = None,
        columns_made: ColumnsMadeReader = lambda oid: None,
    ) -> None:
        """``named``: tables whose oids the stream does not tell."""
        self._named = named or NamedTables(lambda schema, table: None)
        self._slot_id = slot_id
        self._system_identifier = system_identifier
        self._primary_key = primary_key
        self._type_names = type_names
        self._columns_made = columns_made
        self._type_bases = type_bases
        self._rules = MaskRules(slot_id, column_rules)
        # By identity: hashing a Relation would hash all its columns at every look-up. The plan
        # holds the relation, so that its id() stays taken.
        self._plans: dict[int, TablePlan] = {}
        #: The shape of each table that the store has as its current one, and how it was made.
        self._current: dict[tuple[int, str, str], tuple[TablePlan, StoredShape, Made]] = {}

    def keep_up(self, connection: psycopg.Connection[Any], mark: str | None = None) -> None:
        """Obey the mask rules as they are in the store now; ``mark``: see ``MaskRules.read``."""
        if self._rules.read(connection, mark):
            current = (known[0] for known in self._current.values())
            for plan in {id(plan): plan for plan in (*self._plans.values(), *current)}.values():
                self._apply(plan)

    def _apply(self, plan: TablePlan) -> None:
        plan.obey(self._rules.of_names(plan.all_names, plan.columns))

    def get(self, relation: Relation) -> TablePlan | None:
        """Return the plan that was made for this very object, or None."""
        return self._plans.get(id(relation))

    def forget_others(self, relation: Relation) -> None:
        """Drop earlier shapes of the same table: the decoder will not use them again."""
        stale = [
            key
            for key, plan in self._plans.items()
            if _table(plan.relation) == _table(relation) and plan.relation is not relation
        ]
        for key in stale:
            del self._plans[key]

    def make(
        self,
        connection: psycopg.Connection[Any],
        relation: Relation,
        *,
        lsn: int,
        xid: int | None,
        in_force: bool = True,
    ) -> tuple[TablePlan, StoredShape]:
        """Store the relation's shape and plan for it; runs inside the store transaction.

        ``in_force`` False: it was read from the catalog, apart from the stream.
        """
        known, (made, mine) = self._current.get(_table(relation)), self._made(relation, xid)
        if known is not None and known[0].relation == relation and known[2] == made:
            # What this very transaction altered it may have altered again since it was sent.
            again = {name: one[:2] if mine & {*one[1:2]} else one for name, one in made.items()}
            if again == made and not self._has_other_key(known[0], xid):
                # Sent once more: nothing has changed, in the store either.
                plan = replace(known[0], relation=relation)
                self._plans[id(relation)] = plan
                return plan, replace(known[1], is_new=False)
            made = again
        shape = self._shape(relation, xid)
        stored = store_shape(
            connection,
            self._slot_id,
            self._system_identifier,
            shape,
            lsn=lsn,
            xid=xid,
            in_force=in_force,
            made=made,
        )
        names = connection.execute(_NAMES, [stored.relation_id]).fetchall()
        plan = _plan(relation, stored, shape, names)
        self._apply(plan)
        self._plans[id(relation)] = plan
        self._current[_table(relation)] = plan, stored, made
        return plan, stored

    def _made(self, relation: Relation, xid: int | None) -> tuple[Made, set[int | None]]:
        """How the catalog says that its columns were made. Of one that a transaction altered that
        began after this one only its number and that transaction: what it was here, and whether
        others altered it before, the catalog does not know any more. Of one that is dropped by
        now, renamed, or gone with its table, it knows nothing. And the transactions that are this
        one: a later one that created the table is its subtransaction.

        One that began before this one may have altered it afterwards, too: its ALTER TABLE waits
        for the end of who changed the table. Nothing tells that: it is taken for an earlier one.
        """
        now, mine = self._columns_made(relation.oid) if relation.oid else None, {xid}
        if now is None or xid is None:
            return now.columns if now else {}, mine
        later = {made[1] for made in now.columns.values()
                 if is_later(made[1], xid, following=now.following)}  # fmt: skip
        mine |= later & {now.created}
        told = {n: made[:2] if made[1] in later - mine else made for n, made in now.columns.items()}
        return {**{name: [] for name in relation.names}, **told}, mine

    def _shape(self, relation: Relation, xid: int | None) -> Shape:
        """The relation as the store keeps it, with what only the source's catalog knows of it."""
        key_columns = self._key_columns(relation, xid)
        columns = relation.columns
        if not relation.oid:
            columns = tuple(self._named.column_of(relation, column) for column in columns)
        type_names = self._type_names([(c.type_oid, c.typmod) for c in columns])
        type_bases = self._type_bases([c.type_oid for c in columns])
        return Shape(
            oid=self._named.oid_of(relation),
            schema=relation.namespace,
            table=relation.name,
            replica_identity=relation.replica_identity or "UNKNOWN",
            columns=[
                ColumnShape(
                    c.name,
                    c.type_oid,
                    c.typmod,
                    type_names.get((c.type_oid, c.typmod), c.type_name),
                    c.is_key,
                    type_bases.get(c.type_oid),
                )
                for c in columns
            ],
            key_columns=key_columns,
        )

    def _has_other_key(self, known: TablePlan, xid: int | None) -> bool:
        """Under FULL the key is the catalog's; the stream does not tell that it is another one."""
        relation = known.relation
        if relation.replica_identity != "FULL" or self._primary_key(relation.oid, xid) is None:
            return False
        return list(self._key_columns(relation, xid)) != list(known.key_columns)

    def _key_columns(self, relation: Relation, xid: int | None) -> Sequence[str]:
        """The identity's columns; under FULL, and where nobody told, the catalog's key."""
        if relation.replica_identity in ("FULL", None):
            named = self._named.primary_key(relation)
            key = (self._primary_key(relation.oid, xid) or ()) if relation.oid else named
            # Part of a key (the rest unpublished, or called otherwise by now) tells no rows apart.
            return key if all(name in relation.names for name in key) else []
        return [relation.names[index] for index in relation.key_indexes]


def _plan(
    relation: Relation, stored: StoredShape, shape: Shape, names: Sequence[tuple[str, str]]
) -> TablePlan:
    """Without any rule."""
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


def _table(relation: Relation) -> tuple[int, str, str]:
    """What makes two relations shapes of one table: its oid, or else its name."""
    if relation.oid:
        return relation.oid, "", ""
    return 0, relation.namespace, relation.name


#: Stands in for a value that must not be kept: written as it is, without a call for each.
MASKED = orjson.Fragment(b'{"$masked":true}')


class Aside:
    """Stands in for a value kept in ``large_value``."""

    __slots__ = ("characters",)

    def __init__(self, characters: int) -> None:
        self.characters = characters


def as_json(value: object) -> dict[str, object]:
    """orjson's ``default``: the marked form of a value that is not plain text."""
    if isinstance(value, Undecoded):
        name = "$binary" if value.format == "binary" else "$bytes"
        return {name: base64.b64encode(value.raw).decode("ascii"), "$type": value.type_oid}
    if isinstance(value, Aside):
        return {"$aside": value.characters}
    raise TypeError(f"no JSON form for {type(value).__name__}")
