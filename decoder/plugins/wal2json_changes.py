"""wal2json's changes, put into the shape of their table and into the transaction."""

from __future__ import annotations

from typing import ClassVar, Literal

from decoder.errors import ProtocolError
from decoder.events import Truncation
from decoder.messages import Column, OldKind
from decoder.plugins.relations import ColumnsOf, Fit, TableName, ToldColumn
from decoder.plugins.run import PluginCollector
from decoder.plugins.wal2json_rows import Object, ToldRow, lsn_of, number_of, time_us_of
from decoder.plugins.wal2json_text import KIND, as_written
from decoder.tuples import NOT_SENT, UNCHANGED, Value


def _as_told(column: Column) -> ToldColumn:
    name = column.type_name
    return ToldColumn(column.name, None if name is None else as_written(name), column.type_oid)


class Wal2JsonChanges(PluginCollector):
    """What both formats have in common, once a row is read."""

    __slots__ = ()

    plugin: ClassVar[str] = KIND

    def __init__(self, columns_of: ColumnsOf | None) -> None:
        super().__init__(columns_of, _as_told, keys_told=True)

    def _began(self, row: Object, first_lsn: int, xid: int) -> None:
        told = number_of(row, "xid")
        transaction = self._begin(xid if told is None else told, first_lsn)
        # Format 1 tells no ``lsn`` here.
        transaction.final_lsn = lsn_of(row, "lsn")
        transaction.commit_time_us = time_us_of(row)
        origin = number_of(row, "origin")
        transaction.origin = f"#{origin}" if origin else None

    def _row(
        self,
        lsn: int,
        op: Literal["I", "U", "D"],
        table: TableName,
        key: tuple[str, ...],
        new: ToldRow | None,
        old: ToldRow | None,
    ) -> None:
        """Add an insert, update or delete; ``key`` is the primary key."""
        if op == "I" and new is not None:
            relation = self._relations.whole(table, new.layout, key)
            self._add(lsn, relation, op, None, None, new.values)
            return
        new_values = None
        old_fit = None if old is None else self._relations.part(table, old.layout, key)
        if new is not None:
            fit = self._relations.part(table, new.layout, key, updated=True)
            new_values = fit.place(new.values, UNCHANGED)
            # The new row knows more columns: the old one is placed among them.
            old_fit = None if old is None else self._relations.part(table, old.layout, key)
            if old_fit is not None and old_fit.relation is not fit.relation:
                raise ProtocolError(KIND, None, "an old row of the new row's columns")
        if old is None or old_fit is None:
            self._add(lsn, self._relations.named(table), op, None, None, new_values)
            return
        kind: OldKind | None = self._relations.old_kind(table, len(old.values))
        old_values: list[Value] | None = old_fit.place(old.values, NOT_SENT)
        if kind == "K" and new_values is not None and _repeats(old, old_fit, new_values):
            kind = old_values = None
        self._add(lsn, old_fit.relation, op, kind, old_values, new_values)

    def _truncate(self, lsn: int, table: TableName) -> None:
        self._add(lsn, self._relations.named(table), "T", None, None, Truncation(None, None))


def _repeats(old: ToldRow, fit: Fit, new_values: list[Value]) -> bool:
    """Whether the old row says nothing that the new one does not.

    Where the server kept no old row, wal2json makes one of the new row's key.
    """
    positions = range(len(new_values)) if fit.positions is None else fit.positions
    return all(
        value == new_values[position] for position, value in zip(positions, old.values, strict=True)
    )
