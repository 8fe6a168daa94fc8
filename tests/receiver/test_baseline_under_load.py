"""Baselines beside a receiver that writes: one order without holes, and rows that come out true."""

import random
import threading

import psycopg
import pytest

from replview.access.visibility import reading_session
from replview.store.models import Baseline, Change, SlotIncarnation, Transaction
from replview.store.read.changes.of_transaction import changes_of
from replview.store.read.row_history.before_images import before_images
from tests.support.baselines import asked, begun, read, take
from tests.support.recording import Recording
from tests.support.source_databases import SourceDatabase

pytestmark = pytest.mark.slow
_ROWS = 3000


class Load:
    """Sessions that change rows until told to stop."""

    def __init__(self, source: SourceDatabase, tables: list[str], sessions: int = 3) -> None:
        self._source = source
        self._tables = tables
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=[number]) for number in range(sessions)
        ]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self, number: int) -> None:
        dice = random.Random(number)
        new = _ROWS + 1 + number * 1_000_000
        with self._source.connect() as session:
            while not self._stop.is_set():
                session.execute("BEGIN")
                try:
                    new = self._change(session, dice, new)
                except psycopg.errors.DeadlockDetected:
                    session.execute("ROLLBACK")
                    continue
                session.execute("ROLLBACK" if dice.random() < 0.1 else "COMMIT")

    def _change(self, session: psycopg.Connection, dice: random.Random, new: int) -> int:
        """The changes of one transaction; the next unused id."""
        for _ in range(dice.choice([1, 1, 3, 40])):
            table = dice.choice(self._tables)
            row = dice.randint(1, _ROWS)
            what = dice.random()
            if what < 0.6:
                session.execute(f"UPDATE {table} SET n = n + 1 WHERE id = %s", [row])
            elif what < 0.75:
                session.execute(f"DELETE FROM {table} WHERE id = %s", [row])
            else:
                session.execute(f"INSERT INTO {table} VALUES (%s, 0)", [new])
                new += 1
            if dice.random() < 0.1:
                session.execute("SELECT pg_sleep(0.002)")
        return new


def make(source: SourceDatabase, *tables: str) -> None:
    for table in tables:
        source.run(
            f"CREATE TABLE {table} (id int PRIMARY KEY, n int)",
            f"INSERT INTO {table} SELECT n, 0 FROM generate_series(1, {_ROWS}) AS n",
        )


def rebuilt(recording: Recording, taken: Transaction) -> dict[str, str]:
    """The table as its baseline and the changes after it leave it: what committed before the
    snapshot's position is in the snapshot, whatever the order in which it was stored.
    """
    rows = {c.new["id"]: c.new["n"] for c in recording.changes(taken)}
    relation = int(next(iter(taken.relations)))
    later = Transaction.objects.filter(
        incarnation=taken.incarnation, state="committed", commit_lsn__gte=taken.commit_lsn
    ).order_by("commit_seq")
    for transaction in later:
        for change in Change.objects.filter(
            transaction_id=transaction.pk, relation_id=relation
        ).order_by("seq"):
            if change.op == "D":
                del rows[change.old["id"]]
            else:
                rows[change.new["id"]] = change.new["n"]
    return rows


def on_source(source: SourceDatabase, table: str) -> dict[str, str]:
    with source.connect() as session:
        return dict(session.execute(f"SELECT id::text, n::text FROM {table}").fetchall())


def test_baseline_and_later_changes_give_the_table(any_source, record) -> None:
    make(any_source, "t")
    recording = record(any_source)
    with Load(any_source, ["t"]):
        baseline = asked(recording, "t", rows_per_second=2500)
        read(begun(baseline), recording)
    recording.caught_up()

    baseline.refresh_from_db()
    taken = Transaction.objects.get(pk=baseline.transaction_id)
    assert rebuilt(recording, taken) == on_source(any_source, "t")


def test_places_have_no_holes_with_several_baselines_at_once(source, record) -> None:
    tables = [f"t{number}" for number in range(4)]
    make(source, *tables)
    recording = record(source)
    claims = [begun_at_once(asked(recording, table)) for table in tables]
    with Load(source, tables):
        threads = [threading.Thread(target=read, args=[claim, recording]) for claim in claims]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        again = [take(recording, table) for table in tables]
    recording.caught_up()

    placed = Transaction.objects.filter(incarnation__slot=recording.slot, commit_seq__isnull=False)
    places = list(placed.order_by("commit_seq").values_list("commit_seq", flat=True))
    incarnation = SlotIncarnation.objects.get(slot=recording.slot)
    assert places == list(range(1, incarnation.commit_seq + 1))
    assert placed.filter(state="snapshot").count() == 8
    assert len(again) == 4
    recording.slot.refresh_from_db()
    assert recording.slot.transactions_stored == len(places)
    assert recording.slot.outside_writes == 8
    for taken in placed.filter(state="snapshot"):
        table = Baseline.objects.get(transaction_id=taken.pk).table
        assert rebuilt(recording, taken) == on_source(source, table)


def begun_at_once(baseline: Baseline):
    """Claimed though another table of the source is being read."""
    Baseline.objects.filter(state="reading").update(state="failed")
    claim = begun(baseline)
    Baseline.objects.filter(state="failed").update(state="reading")
    return claim


def test_a_baseline_while_the_receiver_is_away_keeps_its_place(source, record) -> None:
    make(source, "t")
    recording = record(source)
    source.run("UPDATE t SET n = 1 WHERE id = 1")
    recording.caught_up()
    recording.end()
    source.run("UPDATE t SET n = 2 WHERE id = 1")
    taken = take(recording, "t")
    source.run("UPDATE t SET n = 3 WHERE id = 1")
    recording.start()
    recording.caught_up()

    # Stored before the update that its rows contain: its position tells that it comes after.
    assert [t.commit_seq for t in recording.transactions()] == [1, 2, 3, 4]
    assert taken.commit_seq == 2
    assert rebuilt(recording, taken)["1"] == "3"


def test_the_first_update_has_its_before_image(source, record) -> None:
    make(source, "t")
    recording = record(source)
    taken = take(recording, "t")
    source.run("UPDATE t SET n = 7 WHERE id = 5", "DELETE FROM t WHERE id = 6")
    recording.caught_up()

    update, delete = (
        changes_of(reading_session(), t.pk)[0] for t in recording.transactions(state="committed")
    )
    before = before_images(reading_session(), [update, delete])
    first = before[update.transaction_id, update.seq]
    assert (first.image, first.op) == ({"id": "5", "n": "0"}, "S")
    assert first.transaction_id == taken.pk
    assert before[delete.transaction_id, delete.seq].image == {"id": "6", "n": "0"}
