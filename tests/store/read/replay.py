"""A naive replay of ``replview changes``: what each change found and left, read from front to back.

No index, no key chain, no bound: the whole history of one table, one record after another. What
``store.read`` says of a row before a change, of its history, or of a moment must be the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Key = tuple[Any, ...]
Place = tuple[int, int]


@dataclass
class Replay:
    """The rows of one table, as far as its records tell."""

    #: The names of the key columns.
    names: tuple[str, ...] = ("id",)
    #: By key: what is known of a row that exists; None: a row that does not.
    rows: dict[Key, Row | None] = field(default_factory=dict)
    #: By (commit_seq, seq): the row that an update or a delete found; absent: nobody knows.
    before: dict[Place, Row] = field(default_factory=dict)
    #: The row that a change left; a deleted one left nothing.
    after: dict[Place, Row] = field(default_factory=dict)
    #: The same as ``rows``, after each transaction.
    moments: dict[int, dict[Key, Row | None]] = field(default_factory=dict)
    #: The table's: another one of the same name begins without what was known of the former.
    _oid: int | None = None

    def play(self, records: Iterable[dict[str, Any]]) -> "Replay":
        """All of them, in the order of history."""
        for record in records:
            self._apply(record)
            self.moments[record["commit_seq"]] = dict(self.rows)
        return self

    def _apply(self, record: dict[str, Any]) -> None:
        place = (record["commit_seq"], record["seq"])
        if record["relation_oid"] != self._oid:
            self.rows, self._oid = {}, record["relation_oid"]
        match record["op"]:
            case "truncate":
                self.rows = dict.fromkeys(self.rows)
            case "insert" | "snapshot":
                self._leave(place, record["new"])
            case "delete":
                self._find(place, record["old"])
            case "update":
                # A key that changed was sent, and so was the old row's.
                new = record["new"]
                found = self._find(place, record["old"] or {n: new[n] for n in self.names})
                self._leave(place, {**found, **new})

    def _find(self, place: Place, sent: Row) -> Row:
        """The row that a change found; afterwards it is no longer there."""
        key = self._key(sent)
        known = self.rows.get(key)
        if known is not None:
            self.before[place] = {**known, **sent}
        self.rows[key] = None
        return {**(known or {}), **sent}

    def _leave(self, place: Place, row: Row) -> None:
        self.after[place] = row
        self.rows[self._key(row)] = row

    def _key(self, row: Row) -> Key:
        return tuple(row[name] for name in self.names)
