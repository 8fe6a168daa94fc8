"""A naive replay of ``replview changes``: what each change found and left, read from front to back.

No index, no key chain, no bound: the whole history of one table, one record after another. What
``store.read`` says of a row before a change, of its history, or of a moment must be the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Place = tuple[int, int]


@dataclass
class Replay:
    """The rows of one table, as far as its records tell."""

    #: By key: what is known of a row that exists; None: a row that does not.
    rows: dict[str, Row | None] = field(default_factory=dict)
    #: By (commit_seq, seq): the row that an update or a delete found; absent: nobody knows.
    before: dict[Place, Row] = field(default_factory=dict)
    #: The row that a change left; a deleted one left nothing.
    after: dict[Place, Row] = field(default_factory=dict)
    #: The same as ``rows``, after each transaction.
    moments: dict[int, dict[str, Row | None]] = field(default_factory=dict)

    def play(self, records: Iterable[dict[str, Any]]) -> "Replay":
        """All of them, in the order of history."""
        for record in records:
            self._apply(record)
            self.moments[record["commit_seq"]] = dict(self.rows)
        return self

    def _apply(self, record: dict[str, Any]) -> None:
        place = (record["commit_seq"], record["seq"])
        match record["op"]:
            case "truncate":
                self.rows = dict.fromkeys(self.rows)
            case "insert":
                self._leave(place, record["new"])
            case "delete":
                self._find(place, record["old"])
            case "update":
                # A key that changed was sent, and so was the old row's.
                found = self._find(place, record["old"] or {"id": record["new"]["id"]})
                self._leave(place, {**found, **record["new"]})

    def _find(self, place: Place, sent: Row) -> Row:
        """The row that a change found; afterwards it is no longer there."""
        known = self.rows.get(sent["id"])
        if known is not None:
            self.before[place] = {**known, **sent}
        self.rows[sent["id"]] = None
        return {**(known or {}), **sent}

    def _leave(self, place: Place, row: Row) -> None:
        self.after[place] = row
        self.rows[row["id"]] = row
