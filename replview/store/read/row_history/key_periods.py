"""Divide the changes under a key into periods, in each of which one row had the key.

A period begins with an insert, with an update that moved the row there, or with the first record of
the row. It ends with a delete, with an update that moves the row on, or with a truncation. Only a
deferrable constraint lets two rows have one key, until their transaction ends.

Nothing here reads: row history, the row as of a moment, and erasing all bring their changes.
"""

import datetime as dt
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

#: A truncation of the table: its place and commit time.
Cut = tuple[Any, dt.datetime | None]


class KeyChange(Protocol):
    """The facts about a change of a row that decide which row has a key."""

    @property
    def name(self) -> Hashable:
        """Return what identifies the change."""

    @property
    def transaction(self) -> Hashable:
        """Return what identifies its transaction."""

    @property
    def relation_id(self) -> int:
        """Return the table."""

    @property
    def op(self) -> str:
        """Return the operation: I, U, D or S."""

    @property
    def key_before(self) -> Hashable:
        """Return the row's key before the change; of no use for an insert."""

    @property
    def key_after(self) -> Hashable:
        """Return the row's key after the change; of no use for a delete."""

    @property
    def moves(self) -> bool:
        """Return whether the row has another key after the change."""

    @property
    def is_read(self) -> bool:
        """Return whether its place was read; if not, it begins and ends nothing."""

    @property
    def at(self) -> Any:
        """Return its place in the slot's whole history, which can be compared with others."""

    @property
    def commit_time(self) -> dt.datetime | None:
        """Return the time of the commit; None where it is unknown."""


Change = TypeVar("Change", bound=KeyChange)


@dataclass(slots=True)
class KeyPeriod(Generic[Change]):
    """A period in which one row had one key."""

    relation_id: int
    #: The key, as its changes name it.
    key: Hashable
    #: The row's changes in the period, oldest first, including those that begin and end it.
    events: list[Change]
    #: One of ``insert``, ``moved``, ``snapshot``; empty: the row existed before its first change.
    begun: str = ""
    #: One of ``delete``, ``moved``, ``truncated``, ``lost`` (the end is not recorded), ``table``
    #: (another table has the name since); empty: the row still has the key.
    ended: str = ""
    #: The place and time of the truncation that ended it.
    ended_at: Any = None
    ended_time: dt.datetime | None = None

    @property
    def until(self) -> dt.datetime | None:
        """Return when the row lost the key, or changed last if lost; None: it has the key."""
        return self.ended_time or (self.events[-1].commit_time if self.ended else None)

    @property
    def last_at(self) -> Any:
        """Return the place of the last change, or of the truncation that ended it."""
        return self.ended_at or self.events[-1].at


#: A function that returns which of the rows with a key a change is of; None: of none of them, or
#: unknown.
ResolveKey = Callable[[Sequence[KeyPeriod[Change]], Change], KeyPeriod[Change] | None]


def periods_of(
    key: Hashable,
    events: Iterable[Change],
    truncations: Mapping[int, Sequence[Cut]],
    tell: ResolveKey[Change],
) -> list[KeyPeriod[Change]]:
    """Return the rows that had a key, one after another, oldest first, each table by itself.

    ``events``: in order. ``truncations``: each table's, in order. Raises ``UnsureError`` where
    changes that were not read are needed.
    """
    by_table: dict[int, list[Change]] = {}
    for event in events:
        by_table.setdefault(event.relation_id, []).append(event)
    periods: list[KeyPeriod[Change]] = []
    for relation_id, changes in by_table.items():
        fold = _Fold(relation_id, key, tell)
        cuts = list(truncations.get(relation_id, ()))
        for event in changes:
            while cuts and event.is_read and cuts[0][0] < event.at:
                fold.truncate(*cuts.pop(0))
            fold.take(event)
        for cut in cuts:
            fold.truncate(*cut)
        fold.settle()
        periods += fold.periods
    return sorted(periods, key=lambda period: period.last_at)


def period_with_end(
    periods: Iterable[KeyPeriod[Change]], change: KeyChange
) -> KeyPeriod[Change] | None:
    """Return the period that begins or ends with a change: it moved the row from or to the key."""
    ends = (p for p in periods if change.name in (p.events[0].name, p.events[-1].name))
    return next(ends, None)


class ChangeWithOldRow(Protocol):
    """A change that may have the row before it."""

    @property
    def old_kind(self) -> str | None:
        """Return ``O`` where the server sent the whole row before the change."""

    @property
    def old(self) -> Mapping[str, Any] | None:
        """Return the row before the change, as far as sent."""


def period_of_old_row(
    periods: Sequence[KeyPeriod[Change]],
    change: ChangeWithOldRow,
    values: Sequence[Mapping[str, Any]],
    *,
    unsure: Sequence[bool] = (),
    same: Callable[[str, Any, Any], bool] = lambda _, one, other: bool(one == other),
) -> KeyPeriod[Change] | None:
    """Return which of the rows under one key a change is of: the one with the old row's values.

    ``values``: what is known of each row. ``unsure``: whether each may have changed since, unseen.
    Several have one key only under a deferrable constraint, which is no replica identity: the whole
    old row is sent then. Otherwise the newest row has it, as the others lost it unseen.
    """
    if change.old_kind != "O":
        return periods[-1]
    old = change.old or {}
    fitting = [
        (unsure[number] if unsure else False, number, known.keys() >= old.keys())
        for number, known in enumerate(values)
        if all(name not in known or same(name, known[name], value) for name, value in old.items())
    ]
    # Among rows that are alike in everything, choose the oldest one that has surely not changed
    # since: the same row may have had the key before, and have lost it unseen.
    if len(fitting) == 1 or (fitting and all(is_whole for _, _, is_whole in fitting)):
        return periods[min(fitting)[1]]
    return None


class UnsureError(Exception):
    """A change that was not read may be of another row than its neighbours."""


class _Fold(Generic[Change]):
    """The periods so far, while one table's changes under a key are taken in order."""

    def __init__(self, relation_id: int, key: Hashable, tell: ResolveKey[Change]) -> None:
        self.periods: list[KeyPeriod[Change]] = []
        self._relation_id = relation_id
        self._key = key
        self._tell = tell
        #: The periods of rows that have the key: one, or several within one transaction.
        self._here: list[KeyPeriod[Change]] = []
        #: True while another row may have had the key since before the first known transaction.
        self._maybe_another = True
        self._transaction: Hashable = None
        #: The period of the changes just before that were not read.
        self._passed: KeyPeriod[Change] | None = None

    def truncate(self, at: Any, time: dt.datetime | None) -> None:
        """End the periods of all rows."""
        self._check(None)
        for period in self._here:
            period.ended, period.ended_at, period.ended_time = "truncated", at, time
        self._here = []

    def settle(self) -> None:
        """Keep only the last row: after a transaction one row alone can have the key."""
        for period in self._here[:-1]:
            period.ended = "lost"
        self._here = self._here[-1:]

    def take(self, event: Change) -> None:
        """Add one more change to its period. Raises ``UnsureError``."""
        if not event.is_read:
            self._pass(event)
            return
        if event.transaction != self._transaction:
            self._maybe_another = self._transaction is None
            self.settle()
            self._transaction = event.transaction
        moves_away = event.moves and event.key_before == self._key
        period = self._period(event, moves_away)
        self._check(period)
        period.events.append(event)
        if event.op == "D" or moves_away:
            period.ended = "delete" if event.op == "D" else "moved"
            self._here.remove(period)

    def _pass(self, event: Change) -> None:
        """Add a change that was not read, assumed to be of the row that has the key."""
        if len(self._here) != 1:
            raise UnsureError
        self._passed = self._here[0]
        self._passed.events.append(event)

    def _check(self, period: KeyPeriod[Change] | None) -> None:
        if self._passed not in (None, period):
            raise UnsureError
        self._passed = None

    def _period(self, event: Change, moves_away: bool) -> KeyPeriod[Change]:
        """Return the period of the row that this change is of."""
        if event.op == "I" or (event.moves and not moves_away):
            return self._begin("insert" if event.op == "I" else "moved")
        if not self._here:
            return self._begin("snapshot" if event.op == "S" else "")
        alone = len(self._here) == 1
        if alone and not (self._maybe_another and self._here[0].begun in ("insert", "moved")):
            return self._here[0]
        period = self._tell(self._here, event)
        if period is not None:
            return period
        for each in () if alone else self._here:
            each.ended = "lost"
        self._here = self._here if alone else []
        return self._begin("")

    def _begin(self, begun: str) -> KeyPeriod[Change]:
        period = KeyPeriod[Change](self._relation_id, self._key, [], begun)
        self._here.append(period)
        self.periods.append(period)
        return period
