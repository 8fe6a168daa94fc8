"""Before images, row history and rows as of a moment are what a naive replay says they are."""

import datetime as dt
import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection

from replview.store.connecting import store_conninfo
from replview.store.django_session import DjangoSession
from replview.store.read.changes.of_transaction import changes_of
from replview.store.read.history import transactions_by_id
from replview.store.read.row_history.as_of import row_as_of
from replview.store.read.row_history.before_images import Shared, before_at, before_images
from replview.store.read.row_history.history import row_history
from replview.store.read.rows import signed_hash
from replview.store.read.session import ReadSession
from replview.store.write.partitions import ensure_partitions
from tests.store.read.replay import Place, Replay
from tests.support.history_rows import WHEN, History
from tests.support.recorded import iterate_changes

KEYS = ("1", "2", "3")
pytestmark = pytest.mark.django_db(transaction=True)


class RandomRows:
    """Changes of three rows, two of which were there before the record began."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.there = {"1", "2"}
        self.history = History(f"seed{seed}")
        self.transactions = [
            self.history.commit(*self._changes(), commit_time=WHEN + dt.timedelta(minutes=minute))
            for minute in range(7)
        ]

    def _changes(self) -> list[dict[str, Any]]:
        return [self._change() for _ in range(self.random.randrange(1, 4))]

    def _change(self) -> dict[str, Any]:
        free = sorted(set(KEYS) - self.there)
        some = self.random.random()
        if some < 0.05:
            self.there.clear()
            return {"op": "T", "new": {"cascade": False, "restart_identity": False}}
        if free and (not self.there or some < 0.3):
            key = self.random.choice(free)
            self.there.add(key)
            return {"op": "I", "new": self._row(key), "key_hash": signed_hash([key])}
        key = self.random.choice(sorted(self.there))
        if some < 0.45:
            self.there.remove(key)
            old = {"id": key}
            return {"op": "D", "old": old, "old_kind": "K", "key_hash": signed_hash([key])}
        if free and some < 0.6:
            new = self.random.choice(free)
            self.there ^= {key, new}
            return {
                "op": "U", "old": {"id": key}, "old_kind": "K", "new": self._row(new),
                "key_hash": signed_hash([new]), "old_key_hash": signed_hash([key]),
            }  # fmt: skip
        return {"op": "U", "new": self._row(key), "key_hash": signed_hash([key])}

    def _row(self, key: str) -> dict[str, Any]:
        row = {"id": key, "status": f"s{self.random.randrange(1000)}"}
        # A value that is stored out of line is not sent by an update that leaves it alone.
        return row if self.random.random() < 0.4 else row | {"note": f"n{key}"}


@pytest.fixture
def plain() -> Iterator[ReadSession]:
    """A session on psycopg's own connection, as Spark has one."""
    with psycopg.connect(store_conninfo(), autocommit=True) as session:
        yield ReadSession(session)


def test_every_reading_is_what_the_replay_says(db: None, plain: ReadSession) -> None:
    today = dt.datetime.now(tz=dt.UTC).date()
    connection.ensure_connection()
    ensure_partitions(connection.connection, today, today)
    for seed in range(12):
        rows = RandomRows(seed)
        for session in (DjangoSession(), plain):
            records = [record for _, record in iterate_changes(session, rows.history.slot)]
            replay = Replay().play(records)
            assert _before(session, rows) == (replay.before, replay.before), seed
            _holds_row_history(session, rows, replay)
            _holds_moments(session, rows, replay)


def _before(session: ReadSession, rows: RandomRows) -> tuple[dict[Place, Any], dict[Place, Any]]:
    """The row before each change that found one: as pages read it, and as exports do."""
    seqs = {row.id: row.commit_seq or 0 for row in transactions_by_id(session, rows.transactions)}
    changes = [c for each in rows.transactions for c in changes_of(session, each)]
    places = [(c.transaction_id, c.seq) for c in changes if c.op in "UD"]
    of_pages = before_images(session, changes)
    of_exports = before_at(session, places, Shared())
    first, second = (
        {(seqs[at[0]], at[1]): dict(found.image) for at, found in each.items()}
        for each in (of_pages, of_exports)
    )
    return first, second


def _holds_row_history(session: ReadSession, rows: RandomRows, replay: Replay) -> None:
    relation = rows.history.orders.relation_id
    for key in KEYS:
        for entry in row_history(session, rows.history.slot, relation, {"id": key}).entries:
            place = (entry.step.commit_seq or 0, entry.step.seq)
            if entry.step.op in ("U", "D") and entry.before_kind == "derived":
                assert entry.before.values == replay.before[place]
            if entry.step.op in ("I", "U") and place in replay.after:
                assert entry.after.values == replay.after[place]


def _holds_moments(session: ReadSession, rows: RandomRows, replay: Replay) -> None:
    relation = rows.history.orders.relation_id
    for number, held in replay.moments.items():
        moment = WHEN + dt.timedelta(minutes=number - 1, seconds=1)
        for key in KEYS:
            if (key,) not in held:
                continue
            found = row_as_of(session, rows.history.slot, relation, {"id": key}, moment=moment)
            if found.key not in ((key,), None):
                continue  # it was known by another key then
            row = held[key,]
            if found.exists and row is not None:
                assert row.items() <= found.values.items()
            elif found.exists is not None:
                assert bool(found.exists) == (row is not None)
