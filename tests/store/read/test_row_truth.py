"""A row's history, the rows that had a key, and a row as of a moment, against what the source's own
triggers noted: rows are known there by a number that never changes.
"""

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg
import pytest

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.store.models import Relation, Transaction
from replview.store.read.row_history import events
from replview.store.read.row_history.as_of import RowState, row_as_of
from replview.store.read.row_history.finding import Row, RowFinder
from replview.store.read.row_history.history import history_of
from replview.store.read.row_history.keys import TableRows, table_of
from replview.store.read.row_history.replay import Entry
from tests.conftest import SourceDatabase
from tests.receiver.conftest import record as record  # a fixture

pytestmark = pytest.mark.slow

KEYS = range(1, 7)
#: Rows with a higher number were there before the record began.
BEFORE = 1000
#: What happened to a row, in order: operation and the key it left.
Story = list[tuple[str, str]]
#: By the number of the row: what it held.
Content = dict[str, dict[str, str | None]]

_TRUTH = """
    CREATE TABLE truth (n bigserial, rid int, op text, id text,
                        xid bigint DEFAULT pg_current_xact_id()::text::bigint);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO truth (rid, op, id) VALUES (
            CASE WHEN TG_OP = 'DELETE' THEN OLD.rid ELSE NEW.rid END, left(TG_OP, 1),
            CASE WHEN TG_OP = 'DELETE' THEN OLD.id ELSE NEW.id END);
        RETURN NULL;
    END $$;
    CREATE FUNCTION note_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO truth (rid, op, id) SELECT rid, 'T', id FROM rows UNION ALL SELECT 0, 'T', 0;
        RETURN NULL;
    END $$;
    CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON rows
        FOR EACH ROW EXECUTE FUNCTION note();
    CREATE TRIGGER emptied BEFORE TRUNCATE ON rows EXECUTE FUNCTION note_truncate();
"""


@dataclass
class Driver:
    """Random transactions over one table whose keys move."""

    source: SourceDatabase
    seed: int
    deferrable: bool
    #: What the table held after each commit, by the transaction's xid.
    contents: dict[int, Content] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.made = 0
        self.source.run(
            "CREATE TABLE rows (id int, rid int, a text, big text, CONSTRAINT rows_key "
            f"PRIMARY KEY (id){' DEFERRABLE INITIALLY DEFERRED' if self.deferrable else ''})",
            "ALTER TABLE rows ALTER big SET STORAGE EXTERNAL",
            f"ALTER TABLE rows REPLICA IDENTITY {'FULL' if self.deferrable else 'DEFAULT'}",
            "INSERT INTO rows SELECT n, n + 1000, 'before', '' FROM generate_series(1, 3) n",
            _TRUTH,
        )

    def play(self, transactions: int) -> None:
        """Commit so many transactions."""
        with self.source.connect() as session:
            while len(self.contents) < transactions:
                with suppress(psycopg.errors.UniqueViolation):
                    self._transaction(session)
                session.rollback()
                found = session.execute("SELECT xid FROM truth ORDER BY n DESC LIMIT 1").fetchone()
                if found is not None:
                    self.contents.setdefault(found[0], self._content(session))

    def stories(self) -> dict[str, Story]:
        """By the number of the row."""
        found: dict[str, Story] = {}
        with self.source.connect() as session:
            noted = session.execute("SELECT rid::text, op, id FROM truth WHERE rid > 0 ORDER BY n")
            for rid, op, key in noted:
                found.setdefault(rid, []).append((op, key))
        return found

    def _transaction(self, session: psycopg.Connection) -> None:
        if self.random.random() < 0.15:
            gid = f"rows-{self.random.randrange(10**9)}"
            session.execute("BEGIN")
            try:
                self._work(session)
                session.execute(f"PREPARE TRANSACTION '{gid}'")
            except psycopg.Error:
                session.execute("ROLLBACK")
                raise
            session.execute(f"COMMIT PREPARED '{gid}'")
            return
        with session.transaction(force_rollback=self.random.random() < 0.1):
            self._work(session)

    def _work(self, session: psycopg.Connection) -> None:
        for _ in range(self.random.randrange(1, 4)):
            if self.random.random() < 0.2:
                with session.transaction(force_rollback=True):
                    self._statement(session)
            self._statement(session)

    def _statement(self, session: psycopg.Connection) -> None:
        one, other, third = self.random.sample(KEYS, 3)
        self.made += 1
        value = f"v{self.made}"
        free = "NOT EXISTS (SELECT FROM rows WHERE id = {})".format
        move = f"UPDATE rows SET id = {other} WHERE id = {one} AND {free(other)}"
        kinds = [
            (4, [f"INSERT INTO rows SELECT {one}, {self.made}, '{value}', repeat('x', 3000) "
                 f"WHERE {free(one)}"]),
            (4, [f"UPDATE rows SET a = '{value}' WHERE id = {one}"]),
            (1, [f"UPDATE rows SET big = repeat('{value}', 1000) WHERE id = {one}"]),
            (4, [move]),
            (1, [move, f"UPDATE rows SET id = {third} WHERE id = {other} AND {free(third)}"]),
            (1, [f"UPDATE rows SET id = 100 WHERE id = {one}",
                 f"UPDATE rows SET id = {one} WHERE id = {other}",
                 f"UPDATE rows SET id = {other} WHERE id = 100"]),
            (1, [f"DELETE FROM rows WHERE id = {one}",
                 f"INSERT INTO rows SELECT {one}, {self.made}, '{value}', '' WHERE {free(one)}"]),
            (2, [f"DELETE FROM rows WHERE id = {one}"]),
            (0.3, ["TRUNCATE rows"]),
        ]  # fmt: skip
        if self.deferrable:
            kinds += [
                (2, [f"UPDATE rows SET id = CASE id WHEN {one} THEN {other} ELSE {one} END "
                     f"WHERE id IN ({one}, {other})"]),
                (1, ["UPDATE rows SET id = id % 6 + 1"]),
                (1, [f"UPDATE rows SET id = {other} WHERE id = {one}",
                     f"UPDATE rows SET a = '{value}' WHERE id = {other}",
                     f"DELETE FROM rows WHERE id = {other} AND rid % 2 = 0"]),
            ]  # fmt: skip
        statements = self.random.choices([s for _, s in kinds], [w for w, _ in kinds])[0]
        for statement in statements:
            session.execute(statement)

    def _content(self, session: psycopg.Connection) -> Content:
        rows = session.execute("SELECT rid::text, id::text, a, big FROM rows").fetchall()
        return {rid: {"id": key, "rid": rid, "a": a, "big": big} for rid, key, a, big in rows}


@pytest.fixture(params=[(1, False), (2, False), (3, True), (4, True)], ids=str)
def played(request, source, record):
    """A driver that was played and recorded from the beginning."""
    driver = Driver(source, *request.param)
    recording = record(source)
    driver.play(50)
    recording.caught_up()
    recording.end()
    return driver, recording


def _table(recording) -> TableRows:
    relation = Relation.objects.get(slot=recording.slot, table="rows")
    table = table_of(reading_session(), recording.slot, relation.pk)
    assert table is not None
    return table


def _finder(recording, key: str) -> RowFinder:
    table = _table(recording)
    return RowFinder(reading_session(), recording.slot, table, table.hashes({"id": key}))


def _pages(recording, key: str, change: tuple[int, int]) -> Iterator[Entry]:
    """The whole history of a row, newest first, a few changes a page."""
    cursor: str | None = None
    while True:
        page = history_of(_finder(recording, key), change=change, cursor=cursor, limit=3)
        yield from page.entries
        cursor = page.older
        if cursor is None:
            return


def _story(entries: list[Entry], first: str) -> tuple[set[str], Story]:
    """Whose rows the values are, and what happened, oldest first."""
    values = [state.values for entry in entries for state in (entry.before, entry.after)]
    rids = {str(each["rid"]) for each in values if "rid" in each}
    key, story = first, []
    for entry in reversed(entries):
        step = entry.step
        key = key if step.op == "T" else (entry.key_after or ("?",))[0]
        story.append((step.op, key))
    return rids, story


def test_every_answer_about_a_row_is_what_the_source_knows(played) -> None:
    _holds_histories(*played)
    _holds_keys(*played)
    _holds_rows(*played)


def _holds_histories(driver: Driver, recording) -> None:
    """Every history is of one row, from its birth (or the record's beginning) to its end."""
    stories = driver.stories()
    told: dict[str, Story] = {}
    nameless: list[Story] = []
    for key in (*map(str, KEYS), "100"):
        finder = _finder(recording, key)
        assert not finder.limited
        for span in finder.spans:
            entries = list(_pages(recording, key, span.events[-1].name))
            rids, story = _story(entries, key)
            assert len(rids) <= 1, (key, rids, story)
            if rids:
                told[rids.pop()] = story
            elif story not in nameless:
                nameless.append(story)
    # Of a row from before the record of which nothing but keys was sent the number is not told.
    left = {rid: story for rid, story in stories.items() if rid not in told}
    assert {rid: told[rid] for rid in told} == {rid: stories[rid] for rid in told}
    assert sorted(left.values()) == sorted(nameless)
    assert all(int(rid) > BEFORE for rid in left)


def _commits(driver: Driver, recording) -> list[tuple[Transaction, Content]]:
    """Every commit with what the table held after it."""
    by_xid = {t.xid: t for t in recording.transactions(state="committed")}
    return [(by_xid[xid], content) for xid, content in driver.contents.items()]


def _holds(state: RowState, row: dict[str, str | None], where: str) -> None:
    """What is told of a row is so; all of one that was made within the record."""
    old = int(row["rid"] or 0) > BEFORE
    if not (old and state.exists is None):
        assert state.exists, where
        assert state.values == row or (old and state.values.items() <= row.items()), where


def _holds_keys(driver: Driver, recording) -> None:
    """The row that had a key as of every commit is the one that the table held."""
    relation = Relation.objects.get(slot=recording.slot, table="rows")
    elsewhere = 0
    for transaction, content in _commits(driver, recording):
        held = {row["id"]: row for row in content.values()}
        for key in map(str, KEYS):
            lsn = int(LSN(transaction.commit_lsn))
            state = row_as_of(reading_session(), recording.slot, relation.pk, {"id": key}, lsn=lsn)
            where = f"row {key} at {transaction.commit_lsn}"
            if key in held:
                _holds(state, held[key], where)
                assert state.key in ((key,), None), where
            elif state.exists and "rid" in state.values:
                elsewhere += 1
                _holds(state, content[str(state.values["rid"])], where)
    assert elsewhere > 5


def _holds_rows(driver: Driver, recording) -> None:
    """Every row as of every commit, asked for by the last key it had."""
    for rid, story in list(driver.stories().items())[:12]:
        finder = _finder(recording, story[-1][1])
        mine = (r for r in map(finder.follow, finder.spans) if _rid(finder, r) == rid)
        if (row := next(mine, None)) is None:
            assert int(rid) > BEFORE
            continue
        for transaction, content in _commits(driver, recording):
            lsn = int(LSN(transaction.commit_lsn))
            state = row_as_of(
                reading_session(), recording.slot, 0, {}, lsn=lsn, finder=finder, row=row
            )
            if rid in content:
                _holds(state, content[rid], f"{rid} at {transaction.commit_lsn}")
            else:
                assert not state.exists, (rid, lsn)


def _rid(finder: RowFinder, row: Row) -> str:
    """The number of a row, as the first change that has it tells."""
    steps = finder.steps(row.events)
    return next((str(s.after["rid"]) for s in steps if "rid" in s.after), "")


def test_what_is_read_in_parts_is_the_same_or_said_to_be_unknown(
    played, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, recording = played
    whole: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for key in map(str, KEYS):
        finder = _finder(recording, key)
        for span in finder.spans:
            whole[span.events[-1].name] = finder.whole(finder.follow(span))
    monkeypatch.setattr(events, "MOST_EVENTS", 5)
    limited = 0
    for key in map(str, KEYS):
        finder = _finder(recording, key)
        limited += finder.limited
        for span in finder.spans:
            row = finder.follow(span)
            if not row.cut:
                assert finder.whole(row) == whole[span.events[-1].name]
    assert limited > 2
    relation = Relation.objects.get(slot=recording.slot, table="rows")
    for transaction, content in _commits(driver, recording):
        held = {row["id"]: row for row in content.values()}
        for key in map(str, KEYS):
            lsn = int(LSN(transaction.commit_lsn))
            state = row_as_of(reading_session(), recording.slot, relation.pk, {"id": key}, lsn=lsn)
            if state.exists and state.key == (key,):
                assert state.values.items() <= held[key].items(), (key, lsn)
            elif state.exists is False:
                assert key not in held, (key, lsn, state.why)
