"""One process's share of the generated rows and their changes, as binary COPY.

A process owns the rows whose number is its own modulo the number of processes, and the transactions
likewise: what it updates or deletes, it inserted before.
"""

import random
from array import array

import xxhash

from replview.store.write.copy_rows import NULL, pack_hash, pack_jsonb, row_table
from tests.benchmarks.pages.tables import (
    HOT,
    HOT_ROWS,
    MOVING,
    TOASTED,
    Table,
    document,
    key_document,
    key_text,
)

_NO_OLD = NULL + NULL
_KEY, _OLD = b"\x00\x00\x00\x01K", b"\x00\x00\x00\x01O"
_INSERTS, _UPDATES = 0.38, 0.93
#: A change's op, and its columns of COPY before and after ``subxid``.
Piece = tuple[str, bytes, bytes]
_digest = xxhash.xxh3_64_intdigest


class TableRows:
    """The living rows of one table, and the next change of one of them."""

    def __init__(
        self,
        table: Table,
        relation_id: int,
        version_ids: list[int],
        starts: list[int],
        worker: int,
        workers: int,
    ) -> None:
        self.table = table
        self.relation_id = relation_id
        self._versions = list(zip(starts, version_ids, strict=True))
        self._step, self._next = workers, worker
        self._rows, self._changed = array("Q"), array("I")
        self._heads: dict[str, bytes] = {}
        self._end = b""
        self._use_version(0)

    def _use_version(self, index: int) -> None:
        self._index = index
        version_id = self._versions[index][1]
        self._heads = {op: row_table(self.relation_id, version_id, op) for op in "IUDTS"}
        self._end = self.table.template(index + 1)

    def at(self, n: int) -> None:
        """Use the table version that was in force at the ``n``-th transaction."""
        while self._index + 1 < len(self._versions) and n >= self._versions[self._index + 1][0]:
            self._use_version(self._index + 1)

    def insert(self, op: str = "I") -> Piece:
        """A new row."""
        row = self._new_row()
        self._rows.append(row)
        self._changed.append(0)
        return self._piece(op, row, _NO_OLD, document(self.table, row, 0, self._end))

    def any_change(self, draw: random.Random) -> Piece:
        """An insert, an update or a delete of a row that lives."""
        chance = draw.random()
        living = len(self._rows)
        if self.table.position == HOT:
            chance = 0 if living < HOT_ROWS else 0.5
        if chance < _INSERTS or living < 8 or self.table.identity == "NOTHING":
            return self.insert()
        at = self._pick(draw, living)
        row, times = self._rows[at], self._changed[at]
        if chance >= _UPDATES:
            return self._delete(at, row, times)
        self._changed[at] = times + 1
        if self.table.position == MOVING and chance < _INSERTS + 0.002:
            return self._move(at, row, times)
        return self._update(row, times)

    def without_effect(self, draw: random.Random) -> Piece:
        """An update that an aborted subtransaction takes away again."""
        if len(self._rows) < 8 or self.table.identity == "NOTHING":
            return self.insert()
        at = self._pick(draw, len(self._rows))
        return self._update(self._rows[at], self._changed[at])

    def _new_row(self) -> int:
        self._next += self._step
        return self._next

    def _pick(self, draw: random.Random, living: int) -> int:
        """Half of all changes meet a new row, some any row, the rest the few old hot ones."""
        kind, where = draw.random(), draw.random()
        if kind < 0.5:
            return living - 1 - int(min(where * where * 400, living - 1))
        return int(where * living) if kind < 0.85 else int(where**2.5 * living)

    def _update(self, row: int, times: int) -> Piece:
        table = self.table
        old = _NO_OLD
        if table.identity == "FULL":
            old = _OLD + _packed(document(table, row, times, self._end))
        note = table.position != TOASTED or times % 3 == 0
        return self._piece("U", row, old, document(table, row, times + 1, self._end, note=note))

    def _move(self, at: int, row: int, times: int) -> Piece:
        """An update of the key: the old one is sent."""
        moved = self._rows[at] = self._new_row()
        old = _KEY + _packed(key_document(self.table, row) + b"}")
        new = document(self.table, moved, times + 1, self._end)
        return self._piece("U", moved, old, new, pack_hash(8, _digest(key_text(self.table, row))))

    def _delete(self, at: int, row: int, times: int) -> Piece:
        table = self.table
        self._rows[at], self._changed[at] = self._rows[-1], self._changed[-1]
        self._rows.pop()
        self._changed.pop()
        if table.identity == "FULL":
            old = _OLD + _packed(document(table, row, times, self._end))
        else:
            old = _KEY + _packed(key_document(table, row) + b"}")
        return self._piece("D", row, old, None)

    def _piece(
        self, op: str, row: int, old: bytes, new: bytes | None, old_hash: bytes = NULL
    ) -> Piece:
        hashed = NULL
        if self.table.identity != "NOTHING":
            hashed = pack_hash(8, _digest(key_text(self.table, row)))
        new_bytes = NULL if new is None else _packed(new)
        return op, self._heads[op] + hashed, b"".join((old, new_bytes, old_hash))


def _packed(text: bytes) -> bytes:
    return pack_jsonb(len(text) + 1, 1) + text
