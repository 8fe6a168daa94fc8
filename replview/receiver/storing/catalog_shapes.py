"""This module adds to a table's shape what only the source's catalog knows, not the stream."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from decoder.messages import RelationMessage
from replview.catalog.stream_shape import ColumnsMade, is_later
from replview.receiver.source_catalog import NamedTables
from replview.store.write.shapes import ColumnShape, Made, Shape

#: Functions that query the source's catalog for a table's primary key, the names of types and their
#: base types.
PrimaryKeyReader = Callable[[int, int | None], Sequence[str] | None]
TypeNameReader = Callable[[Sequence[tuple[int, int]]], Mapping[tuple[int, int], str]]
#: Returns ``catalog.stream_shape.columns_made``; None where the catalog cannot be queried.
ColumnsMadeReader = Callable[[int, int | None], ColumnsMade | None]
TypeBaseReader = Callable[[Sequence[int]], Mapping[int, dict[str, Any]]]


class CatalogShapes:
    """A reader of the current catalog, for the relations of a stream."""

    def __init__(
        self,
        *,
        primary_key: PrimaryKeyReader,
        type_names: TypeNameReader,
        type_bases: TypeBaseReader,
        named: NamedTables | None = None,
        columns_made: ColumnsMadeReader = lambda oid, by: None,
    ) -> None:
        """``named`` has the tables whose oids the stream does not contain."""
        self._named = named or NamedTables(lambda schema, table: None)
        self._primary_key = primary_key
        self._type_names = type_names
        self._columns_made = columns_made
        self._type_bases = type_bases

    def made(
        self,
        relation: RelationMessage,
        xid: int | None,
        top: int | None,
        before: Made | None = None,
    ) -> tuple[Made, set[int | None], bool]:
        """Return how columns were made, this transaction's xids, and if it still holds the table.

        For a column that a transaction altered which began after this one, only its number and that
        transaction are returned: the catalog no longer has its former state, or earlier
        alterations. Nothing is known of a column that was dropped or renamed since, or whose table
        is gone. The xids include a later one that created the table: it is a subtransaction of this
        one.

        This transaction may have altered a column after it changed rows, and the catalog, which is
        queried later, shows no more than that. The column's file is returned only if the column
        cannot be another one now, and its values were not rewritten since ``before``, or since the
        table was created.

        A transaction that began before this one may also have altered a column afterwards, since
        its ALTER TABLE waits for this one to end. Nothing shows that: it counts as earlier.
        """
        oid, own_xids = self._named.oid_of(relation), {xid, top}
        now = self._columns_made(oid, top) if oid > 0 else None
        if now is None or xid is None:
            return now.columns if now else {}, own_xids, False
        # A savepoint may be older than another one and alter what that one changed.
        first = xid if top is None else top
        later = {made[1] for made in now.columns.values()
                 if is_later(made[1], first, following=now.following)}  # fmt: skip
        own_xids |= later & {now.created}
        columns = {
            column: made[:2] if made[1] in later - own_xids else made
            for column, made in now.columns.items()
        }
        for name, made in columns.items():
            if made[1] in own_xids and not _as_sent(now, name, relation, before or {}):
                columns[name] = made[:2]
        return {**unknown(relation), **columns}, own_xids, now.held

    def shape(self, relation: RelationMessage, xid: int | None) -> Shape:
        """Return the relation as the store keeps it, with what only the source's catalog knows."""
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

    def has_other_key(
        self, relation: RelationMessage, key_columns: Sequence[str], xid: int | None
    ) -> bool:
        """Return whether the catalog's key of a relation under FULL is not ``key_columns``.

        Under FULL the key is the catalog's, and the stream does not show that it changed.
        """
        if relation.replica_identity != "FULL" or self._primary_key(relation.oid, xid) is None:
            return False
        return list(self._key_columns(relation, xid)) != list(key_columns)

    def _key_columns(self, relation: RelationMessage, xid: int | None) -> Sequence[str]:
        """Return the replica identity's columns; under FULL, or if unknown, the catalog's key."""
        if relation.replica_identity in ("FULL", None):
            named_key = self._named.primary_key(relation)
            key = (self._primary_key(relation.oid, xid) or ()) if relation.oid else named_key
            # A part of a key (the rest unpublished, or renamed since) does not identify rows.
            return key if all(name in relation.names for name in key) else []
        return [relation.names[index] for index in relation.key_indexes]


def _as_sent(now: ColumnsMade, name: str, relation: RelationMessage, before: Made) -> bool:
    """Return whether a column is certainly the one that ``relation`` was sent with, not rewritten.

    Rewritten means: its values, since ``before`` or since the table was created.

    Column numbers are assigned in order and never reused. If the relation's columns, in its order,
    have all numbers of ``before`` and those that follow without a gap, no column was dropped or
    took the name of another one since: that would leave a gap, or another order.
    """
    number, xid, file = now.columns[name]
    if xid == now.created:
        # The first file of a table has the number of the table's oid.
        before, is_rewritten = {}, file != relation.oid
    else:
        former = [facts for facts in before.values() if facts[:1] == [number]] or [*before.values()]
        is_rewritten = (
            not former or any(len(facts) < 3 or facts[2] != file for facts in former) or not file
        )
    former_numbers = {facts[0] for facts in before.values() if facts}
    sent = [now.columns[column][0] for column in relation.names if column in now.columns]
    added = range(max(former_numbers, default=0) + 1, max(sent, default=0) + 1)
    unsent = now.generated.difference(sent)
    is_complete = len(sent) == len(relation.names) and sent == sorted(
        {*former_numbers, *added} - unsent
    )
    return is_complete and not is_rewritten


def unknown(relation: RelationMessage) -> Made:
    """Return how the relation's columns were made: unknown for every column."""
    return {name: [] for name in relation.names}


def altered_again(relation: RelationMessage, made: Made, mine: set[int | None]) -> Made:
    """Forget the file of columns that these transactions may have altered a second time.

    Rows that are still in the table's first file, which has the table's oid, were never rewritten.
    """
    first = [relation.oid]
    return {
        name: facts[:2] if mine & {*facts[1:2]} and [*facts[2:]] != first else facts
        for name, facts in made.items()
    }
