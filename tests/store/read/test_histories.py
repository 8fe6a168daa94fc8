"""Every answer over the record is what the source's own triggers noted of random histories.

50 histories, or as many as ``HISTORIES`` says; ``SEEDS`` repeats the ones that a failure names.
"""

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.store.models import Relation, Transaction
from replview.store.read.changes.as_sql import TransactionUndo, undo_transaction
from replview.store.read.changes.of_transaction import changes_of
from replview.store.read.coverage import Coverage, coverage_of
from replview.store.read.row_history import events
from replview.store.read.row_history.as_of import RowState, bounded, row_as_of
from replview.store.read.row_history.before_images import before_images
from replview.store.read.row_history.finding import Row as FoundRow
from replview.store.read.row_history.finding import RowFinder
from replview.store.read.row_history.history import history_of
from replview.store.read.row_history.keys import TableRows, table_of
from replview.store.read.row_history.replay import Entry
from replview.store.read.rows import ChangeRow
from tests.receiver.baselines import take
from tests.receiver.conftest import Recording
from tests.receiver.conftest import record as record  # a fixture
from tests.store.read.histories import BETWEEN, KEYS, Commit, Content, Fact, Histories, Row, Table
from tests.ui.api.conftest import program as program  # a fixture
from tests.ui.api.conftest import user as user  # a fixture

pytestmark = pytest.mark.slow

_TABLES = 10
_COMMITS = 250
#: What every table has from its creation to its end.
_BASE = ("rid", "id", "part", "a", "n", "big")
_COUNT = int(os.environ.get("HISTORIES", "50"))
_SEEDS = [int(seed) for seed in os.environ.get("SEEDS", "").split()] or range(-(-_COUNT // _TABLES))
#: A change: transaction and seq.
Place = tuple[int, int]


@dataclass
class Played:
    """Histories, the record of them, and where in it each noted change is."""

    histories: Histories
    recording: Recording
    transactions: dict[int, Transaction]
    #: Of each commit: its changes with what was noted of them.
    changes: dict[int, list[tuple[ChangeRow, Fact]]]

    def table(self, table: Table) -> TableRows:
        relation = Relation.objects.get(slot=self.recording.slot, table=table.name)
        found = table_of(reading_session(), self.recording.slot, relation.pk)
        assert found is not None
        return found

    def finder(self, table: Table, key: int) -> RowFinder:
        rows = self.table(table)
        hashes = rows.hashes(table.key(key))
        return RowFinder(reading_session(), self.recording.slot, rows, hashes)

    def lsn(self, xid: int) -> int:
        return int(LSN(self.transactions[xid].commit_lsn))


@pytest.fixture(params=_SEEDS)
def played(request: pytest.FixtureRequest, source: Any, record: Callable[..., Recording]) -> Played:
    """Ten histories that were played and recorded from the beginning."""
    histories = Histories(source, request.param)
    histories.create(_TABLES)
    recording = record(source, publish="TABLES IN SCHEMA public")
    histories.play(_COMMITS - 100)
    recording.end()
    # The receiver reads this later than the source's catalog has come to be.
    histories.play(50)
    recording.start()
    histories.play(50)
    recording.caught_up()
    recording.end()
    return _played(histories, recording)


def _played(histories: Histories, recording: Recording) -> Played:
    transactions = {t.xid: t for t in recording.transactions(state="committed")}
    changes = {}
    for commit in (each for each in histories.commits if each.xid in transactions):
        found = [
            change
            for change in changes_of(
                reading_session(), transactions[commit.xid].pk, limit=1_000_000
            )
            if change.op != "M"
        ]
        assert [(c.table, c.op) for c in found] == [(f.table, f.op) for f in commit.facts]
        changes[commit.xid] = list(zip(found, commit.facts, strict=True))
    return Played(histories, recording, transactions, changes)


def test_every_answer_is_what_the_source_knows(played: Played, program: Client, user: User) -> None:
    assert {t.state for t in played.recording.transactions()} <= {
        "committed", "aborted", "rolled back", "message"
    }  # fmt: skip
    streamed = [t.streamed for t in played.transactions.values()]
    assert any(streamed)
    assert not all(streamed) or any(t.aborted_changes for t in played.transactions.values())
    _holds_values(played)
    _holds_before_images(played)
    _holds_actors(played, program)
    _holds_counts(played, program)
    _holds_filters(played, program)
    _holds_find(played, program)
    browser = Client()
    browser.force_login(user)
    _holds_search(played, browser)
    for table in played.histories.tables:
        _holds_histories(played, table)
        _holds_keys(played, table)
        _holds_rows(played, table)


def test_what_is_read_in_parts_is_the_same_or_said_to_be_unknown(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = played.histories.random.sample(played.histories.tables, 3)
    whole = {}
    for table, key in itertools.product(tables, KEYS):
        finder = played.finder(table, key)
        for span in finder.spans:
            whole[span.events[-1].name] = finder.whole(finder.follow(span))
    monkeypatch.setattr(events, "MOST_EVENTS", 5)
    limited = 0
    for table, key in itertools.product(tables, KEYS):
        finder = played.finder(table, key)
        limited += finder.limited
        for span in finder.spans:
            row = finder.follow(span)
            if not row.cut:
                assert finder.whole(row) == whole[span.events[-1].name]
    assert limited > 2
    for table in tables:
        _holds_keys(played, table, limited=True)


@dataclass
class Gapped:
    """Histories of which a middle part is not in the record."""

    played: Played
    #: Commits by number: the first that is not recorded, and the first that is again.
    lost: tuple[int, int]
    #: A position in the gap, after all of its commits.
    inside: int


@pytest.fixture(params=list(_SEEDS)[:2])
def gapped(request: pytest.FixtureRequest, source: Any, record: Callable[..., Recording]) -> Gapped:
    """The slot is dropped, made again after a while, and half of the tables are read whole."""
    histories = Histories(source, request.param)
    histories.create(_TABLES)
    recording = record(source, publish="TABLES IN SCHEMA public")
    histories.play(100)
    recording.caught_up()
    recording.end()
    first, name = len(histories.commits), recording.slot.name
    source.run(f"SELECT pg_drop_replication_slot('{name}')")
    histories.play(60)
    again = len(histories.commits)
    with source.connect() as session:
        row = session.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        session.execute(
            "SELECT pg_create_logical_replication_slot(%s, 'pgoutput', false, true)", [name]
        )
    recording.start()
    recording.streaming()
    for table in histories.tables[::2]:
        take(recording, f"public.{table.name}")
    histories.play(100)
    recording.caught_up()
    recording.end()
    assert recording.slot.events.filter(kind="gap").count() == 1
    return Gapped(_played(histories, recording), (first, again), int(LSN.parse(row[0])))


def test_what_a_gap_swallowed_is_unknown_and_nothing_false_is_told(gapped: Gapped) -> None:
    played, lost = gapped.played, range(*gapped.lost)
    commits = played.histories.commits
    assert [n for n, c in enumerate(commits) if c.xid not in played.transactions] == list(lost)
    _holds_values(played)
    pairs = [pair for each in played.changes.values() for pair in each]
    found = before_images(reading_session(), [change for change, _ in pairs])
    for change, fact in pairs:
        before = found.get((change.transaction_id, change.seq))
        _known(before.image if before else {}, fact.old or {}, change)
    for table in played.histories.tables:
        _holds_around(gapped, table)


def _holds_around(gapped: Gapped, table: Table) -> None:
    """Rows as of commits before and after the gap are so; inside, nothing is known."""
    played, slot = gapped.played, gapped.played.recording.slot
    slot.refresh_from_db()
    coverage = coverage_of(reading_session(), slot, table=("public", table.name))
    contents = list(enumerate(played.histories.contents(table)))
    recorded = [pair for pair in contents if pair[0] not in range(*gapped.lost)]
    for number, (content, dropped) in played.histories.random.sample(recorded, 12):
        lsn = played.lsn(played.histories.commits[number].xid)
        held = {tuple(row[n] for n in table.key_columns): row for row in content.values()}
        for key in KEYS:
            words = table.key(key)
            state = _as_of(played, table, words, coverage, lsn)
            where = (table, words, number, state)
            assert not state.beyond, where
            row = held.get(tuple(words.values()))
            if state.key not in (tuple(words.values()), None):
                continue  # it had another key then
            if state.exists is not None:
                assert state.exists == (row is not None), where
            values = {n: v for n, v in state.values.items() if n not in dropped}
            if row and row["rid"] < "0":  # as in ``Moment.holds``
                values = {n: v for n, v in values.items() if n in row}
            _known(values, row or {}, where)
    for key in KEYS:
        state = _as_of(played, table, table.key(key), coverage, gapped.inside)
        assert state.beyond == "gap", (table, key, state)


def _as_of(
    played: Played, table: Table, key: dict[str, str], coverage: Coverage, lsn: int
) -> RowState:
    relation, slot = played.table(table).relation.pk, played.recording.slot
    return bounded(row_as_of(reading_session(), slot, relation, key, lsn=lsn), coverage, lsn=lsn)


def test_undo_leaves_every_table_as_it_was(played: Played) -> None:
    """Of each of the last transactions, run on the source, which held what it left."""
    histories = played.histories
    contents = {t.name: [c for c, _ in histories.contents(t)] for t in histories.tables}
    undone = 0
    with histories.source.connect() as session:
        for table in histories.tables:
            session.execute(f"ALTER TABLE {table.name} DISABLE TRIGGER USER")
        for number, commit in list(enumerate(histories.commits))[-60:]:
            names = sorted({fact.table for fact in commit.facts})
            if number == 0 or any(histories.defined_after(name, number) for name in names):
                continue  # undo is for a table as it is
            made = _undo(played, commit)
            if made.sql is None:
                altered = all("ALTER TABLE" in reason for reason in made.reasons)
                assert altered or _has_unknown(commit), (commit, made.reasons)
                continue
            for name in names:
                histories.fill(session, name, contents[name][number])
            session.execute(made.sql)
            for name in names:
                was = contents[name][number - 1]
                assert histories.held(session, name) == was, (commit, made.sql)
            undone += 1
    assert undone > 10


def _undo(played: Played, commit: Commit) -> TransactionUndo:
    changes = changes_of(reading_session(), played.transactions[commit.xid].pk, limit=1_000_000)
    return undo_transaction(changes, before_images(reading_session(), changes))


def _has_unknown(commit: Commit) -> bool:
    """Whether a row is from before the record, or went with a TRUNCATE."""
    return any(fact.op == "T" or (fact.rid or 0) < 0 for fact in commit.facts)


def _known(found: Row, noted: Row | None, where: object) -> None:
    """What is told of a row was so."""
    assert noted is not None, where
    assert found.items() <= noted.items(), (where, dict(found.items() - noted.items()), noted)


def _base(row: Row) -> Row:
    return {name: row[name] for name in _BASE if name in row}


def _holds_values(played: Played) -> None:
    for change, fact in (pair for pairs in played.changes.values() for pair in pairs):
        if change.op in "IU":
            _known(change.new or {}, fact.new, change)
        if change.op in "UD" and change.old_kind == "O":
            assert _base(change.old or {}) == _base(fact.old or {})


def _holds_before_images(played: Played) -> None:
    """The row before each change was so, and is known whole of a row that the record saw made."""
    pairs = [pair for each in played.changes.values() for pair in each]
    found = before_images(reading_session(), [change for change, _ in pairs])
    for change, fact in pairs:
        before = found.get((change.transaction_id, change.seq))
        if before is not None:
            _known(before.image, fact.old, change)
        if fact.op in "UD" and (fact.rid or 0) > 0 and change.old_kind != "O":
            assert before is not None, (change, fact)
            assert _base(dict(before.image)) == _base(fact.old or {}), (change, fact)


def _pages(program: Client, address: str, **words: object) -> Iterator[dict[str, Any]]:
    """All items of a list of the API."""
    cursor: object = ""
    while cursor is not None:
        answer = program.get(address, {**words, "cursor": cursor, "limit": 200})
        assert answer.status_code == 200, answer.content
        page = answer.json()
        yield from page["items"]
        cursor = page["older"] if "older" in page else page["next"]


def _perhaps(played: Played, commit: Commit) -> bool:
    """Whether the stream does not say of a claim if it counts."""
    transaction = played.transactions[commit.xid]
    grades = [part["grade"] for part in transaction.actors or ()]
    return "perhaps" in (*grades, transaction.actor_grade)


def _holds_actors(played: Played, program: Client) -> None:
    """Whose each change is; nothing else is told than what may be so."""
    slot = str(played.recording.slot)
    told = {
        (one["transaction"], one["seq"]): one["actor"]
        for one in _pages(program, "/api/v1/changes", slot=slot)
    }
    several = perhaps = 0
    for commit in played.histories.commits:
        if _perhaps(played, commit):
            perhaps += 1
            continue
        several += len(commit.actors) > 1
        for change, fact in played.changes[commit.xid]:
            actor = told[change.transaction_id, change.seq]
            assert (actor or "") == fact.actor, (commit, change)
    assert several > 10
    # (Where all is streamed at once.)
    assert not perhaps or played.histories.seed % 2
    for actor in ("alice", "Zoë <b>", "?"):
        found = _pages(program, "/api/v1/changes", slot=slot, actor=actor)
        mine = {place for place, name in told.items() if name == (None if actor == "?" else actor)}
        assert {(one["transaction"], one["seq"]) for one in found} == mine, actor


_OPS = {"I": "insert", "U": "update", "D": "delete", "T": "truncate"}


def _tally(facts: list[Fact]) -> dict[str, int]:
    counted = Counter(fact.op for fact in facts)
    return {word: counted[letter] for letter, word in _OPS.items()}


def _holds_counts(played: Played, program: Client) -> None:
    slot = str(played.recording.slot)
    commits = played.histories.commits
    listed = {t["id"]: t for t in _pages(program, "/api/v1/transactions", slot=slot)}
    for commit in commits:
        told = listed[played.transactions[commit.xid].pk]
        counts = {word: told["counts"][word] for word in _OPS.values()}
        assert counts == _tally(commit.facts), (commit.xid, told)
        by_table = {each["table"]: each for each in told["tables"] if each["table"]}
        for name in {fact.table for fact in commit.facts}:
            mine = _tally([fact for fact in commit.facts if fact.table == name])
            assert {word: by_table[name][word] for word in _OPS.values()} == mine, (told, name)
    everything = [fact for commit in commits for fact in commit.facts]
    played.recording.slot.refresh_from_db()
    messages = sum(t["counts"]["message"] for t in listed.values() if t["state"] == "committed")
    assert played.recording.slot.changes == len(everything) + messages
    relations = program.get("/api/v1/relations", {"slot": slot}).json()["items"]
    for relation in relations:
        mine = _tally([fact for fact in everything if fact.table == relation["table"]])
        assert {word: relation[f"{word}s"] for word in _OPS.values()} == mine, relation
    actors = program.get("/api/v1/actors", {"slot": slot}).json()["items"]
    for actor in actors if not any(_perhaps(played, each) for each in commits) else ():
        mine = _tally([f for f in everything if f.actor == (actor["actor"] or "")])
        assert {word: actor[f"{word}s"] for word in _OPS.values()} == mine, actor


def _holds_filters(played: Played, program: Client) -> None:
    slot = str(played.recording.slot)
    random, commits = played.histories.random, played.histories.commits
    ordered = [played.transactions[c.xid] for c in commits]
    low, high = sorted(random.sample(range(len(ordered)), 2))
    table, other = (f"public.{t.name}" for t in random.sample(played.histories.tables, 2))
    letters = "".join(random.sample("IUDT", 2))
    at_least = random.randrange(2, 6)
    actor = random.choice([name for c in commits for name in c.claims])
    perhaps = {n for n, c in enumerate(commits) if _perhaps(played, c)}
    some = random.choice(commits)

    def touched(facts: list[Fact], ops: str = "IUDT", names: str = f"{table},{other}") -> bool:
        return any(f"public.{f.table}" in names.split(",") and f.op in ops for f in facts)

    asked: list[tuple[dict[str, object], Callable[[int], bool]]] = [
        ({"tables": table}, lambda n: touched(commits[n].facts, names=table)),
        ({"tables": f"{table},{other}"}, lambda n: touched(commits[n].facts)),
        ({"tables": table, "ops": letters},
         lambda n: touched(commits[n].facts, letters, table)),
        ({"ops": letters}, lambda n: any(f.op in letters for f in commits[n].facts)),
        ({"actor": actor}, lambda n: actor in commits[n].actors),
        ({"actor": "?"}, lambda n: "" in commits[n].actors),
        ({"id": some.xid}, lambda n: commits[n].xid == some.xid),
        # (Messages of a savepoint that was rolled back stay in a stream.)
        ({"min_changes": at_least},
         lambda n: len(commits[n].facts) + ordered[n].messages >= at_least),
        ({"from_lsn": ordered[low].commit_lsn, "to_lsn": ordered[high].commit_lsn},
         lambda n: low <= n <= high),
        ({"since": ordered[low].commit_time.isoformat(),
          "until": ordered[high].commit_time.isoformat()},
         lambda n: ordered[low].commit_time <= ordered[n].commit_time
         < ordered[high].commit_time),
    ]  # fmt: skip
    of_histories = {t.pk for t in ordered}
    for words, holds in asked:
        address = "/api/v1/transactions"
        items = _pages(program, address, slot=slot, states="committed", **words)
        found = {t["id"] for t in items} & of_histories
        unsure = {ordered[n].pk for n in perhaps} if "actor" in words else set()
        expected = {t.pk for n, t in enumerate(ordered) if holds(n)}
        assert found - unsure == expected - unsure, words


def _holds_find(played: Played, program: Client) -> None:
    """Found is what matches; what is not found is counted as unknown."""
    random = played.histories.random
    for table in random.sample(played.histories.tables, 4):
        pairs = [p for each in played.changes.values() for p in each if p[1].table == table.name]
        values = [row["a"] for _, f in pairs for row in (f.old, f.new) if row and row["a"]]
        one, other = random.choice(values), random.choice(values)
        moved = [
            f for _, f in pairs if f.op == "U" and f.old and f.new and f.old["a"] != f.new["a"]
        ]
        changed = random.choice(moved) if moved else None
        before, after = (
            (changed.old["a"], changed.new["a"]) if changed and changed.old and changed.new
            else (one, other)
        )  # fmt: skip
        asked: list[tuple[str, Callable[[Row | None, Row], bool]]] = [
            (f"a = {one}", lambda old, row, v=one: row["a"] == v),
            (f"a != {one}", lambda old, row, v=one: row["a"] not in (v, None)),
            ("a is null", lambda old, row: row["a"] is None),
            ("n > 9", lambda old, row: float(row["n"] or 0) > 9),
            ("n <= 100.5", lambda old, row: float(row["n"] or 0) <= 100.5),
            (f"big ~ {other}", lambda old, row, v=other: v in (row["big"] or "")),
            ("a changed", lambda old, row: bool(old and old["a"] != row["a"])),
            ("id changed", lambda old, row: bool(old and old["id"] != row["id"])),
            (f"a: {before or 'null'} -> {after or 'null'}",
             lambda old, row, b=before, a=after: bool(old and (old["a"], row["a"]) == (b, a))),
        ]  # fmt: skip
        for where, holds in asked:
            _holds_condition(played, program, table, where, holds)


def _holds_condition(
    played: Played,
    program: Client,
    table: Table,
    where: str,
    holds: Callable[[Row | None, Row], bool],
) -> None:
    words = {"slot": str(played.recording.slot), "tables": f"public.{table.name}", "where": where}
    found: set[Place] = set()
    unknown, cursor = 0, ""
    while cursor is not None:
        page = program.get("/api/v1/changes", {**words, "cursor": cursor, "limit": 1000}).json()
        found |= {(one["transaction"], one["seq"]) for one in page["items"]}
        unknown, cursor = unknown + page["unknown"], page["next"]
    expected = set()
    for change, fact in (pair for pairs in played.changes.values() for pair in pairs):
        row = fact.old if fact.op == "D" else fact.new
        if fact.table == table.name and row is not None:
            both = fact.old if fact.op == "U" else None
            if holds(both, row):
                expected.add((change.transaction_id, change.seq))
    assert found <= expected, (words, found - expected)
    assert len(expected - found) <= unknown, (words, expected - found)


def _holds_search(played: Played, browser: Client) -> None:
    for commit in played.histories.random.sample(played.histories.commits, 5):
        transaction = played.transactions[commit.xid]
        for text in (str(commit.xid), transaction.commit_lsn, transaction.gid):
            if text:
                answer = browser.get("/search/", {"q": text})
                assert answer.status_code == 302, (text, transaction)
                assert answer["Location"] == f"/transactions/{transaction.pk}/", text


def _history(played: Played, table: Table, key: int, change: Place) -> Iterator[Entry]:
    """The whole history of a row, newest first, a few changes a page."""
    cursor: str | None = None
    while True:
        finder = played.finder(table, key)
        page = history_of(finder, change=change, cursor=cursor, limit=7)
        yield from page.entries
        cursor = page.older
        if cursor is None:
            return


#: What happened to a row, in order: operation and the key it left.
Story = list[tuple[str, tuple[Any, ...]]]


def _told(entries: list[Entry], first: tuple[Any, ...]) -> tuple[set[int], Story]:
    """Whose rows the values are, and what happened, oldest first."""
    values = [state.values for entry in entries for state in (entry.before, entry.after)]
    rids = {int(each["rid"]) for each in values if "rid" in each}
    key, story = first, Story()
    for entry in reversed(entries):
        key = key if entry.step.op == "T" else (entry.key_after or entry.key_before or ("?",))
        story.append((entry.step.op, key))
    return rids, story


def _noted(table: Table, facts: list[Fact], first: tuple[Any, ...]) -> Story:
    key, story = first, Story()
    for fact in facts:
        row = fact.new or fact.old
        key = tuple(row[name] for name in table.key_columns) if row else key
        story.append((fact.op, key))
    return story


def _stories(played: Played, table: Table) -> dict[int, list[Fact]]:
    """Those of rows that keys lead to; bulk rows are too many to ask for each."""
    found = played.histories.stories(table.name)
    return {
        rid: facts
        for rid, facts in found.items()
        if not any(row and row["a"] == "bulk" for row in (facts[0].old, facts[0].new))
    }


def _first_key(table: Table, rid: int) -> tuple[Any, ...]:
    """Of a row from before the record."""
    return tuple(table.key(-rid).values()) if rid < 0 else ()


def _holds_histories(played: Played, table: Table) -> None:
    """Every history is of one row, from its birth (or the record's beginning) to its end."""
    stories = {
        rid: _noted(table, facts, _first_key(table, rid))
        for rid, facts in _stories(played, table).items()
    }
    told: dict[int, Story] = {}
    nameless: list[Story] = []
    for key in (*KEYS, BETWEEN):
        finder = played.finder(table, key)
        assert not finder.limited
        for span in finder.spans:
            entries = list(_history(played, table, key, span.events[-1].name))
            rids, story = _told(entries, tuple(table.key(key).values()))
            assert len(rids) <= 1, (table, key, rids, story)
            if rids:
                told[rids.pop()] = story
            elif story not in nameless:
                nameless.append(story)
    # Of a row from before the record of which nothing but keys was sent the number is not told.
    left = {rid: story for rid, story in stories.items() if rid not in told}
    assert told == {rid: stories[rid] for rid in told}, table
    assert all(rid < 0 for rid in left), (table, left)
    kept = [story for story in left.values() if [op for op, _ in story] != ["T"]]
    assert sorted(kept) == sorted(s for s in nameless if [op for op, _ in s] != ["T"]), table


@dataclass(frozen=True)
class Moment:
    """After a commit: what a table held."""

    lsn: int
    content: Content
    #: Columns it no longer had. The record tells of that only with the table's next change.
    dropped: set[str]

    def holds(self, state: RowState, rid: int, where: object, *, limited: bool = False) -> None:
        """What is told of a row is so; all is, of one that was made within the record."""
        where = (where, str(LSN(self.lsn)), state)
        if rid < 0 and state.exists is None:
            return
        assert state.exists, where
        row = self.content[rid]
        values = {n: v for n, v in state.values.items() if n not in self.dropped}
        _known(values, row, where)
        assert rid < 0 or limited or _base(values) == _base(row), where


def _moments(played: Played, table: Table, number: int) -> Iterator[Moment]:
    """Some commits."""
    all_of_them = list(zip(played.histories.commits, played.histories.contents(table), strict=True))
    for commit, (content, dropped) in played.histories.random.sample(all_of_them, number):
        yield Moment(played.lsn(commit.xid), content, dropped)


def _holds_keys(played: Played, table: Table, *, limited: bool = False) -> None:
    """The row that had a key as of a commit is the one that the table held; ``limited``: or it is
    said that not everything was looked at.
    """
    relation = played.table(table).relation.pk
    for moment in _moments(played, table, 8):
        held = {
            tuple(row[n] for n in table.key_columns): rid for rid, row in moment.content.items()
        }
        for key in KEYS:
            words, slot = table.key(key), played.recording.slot
            state = row_as_of(reading_session(), slot, relation, words, lsn=moment.lsn)
            where = (table, words)
            mine = tuple(words.values())
            if limited and state.exists is None:
                continue
            if mine in held:
                moment.holds(state, held[mine], where, limited=limited)
                assert state.key in (mine, None), (where, moment.lsn, state)
            elif state.exists and "rid" in state.values:
                moment.holds(state, int(state.values["rid"]), where, limited=limited)


def _holds_rows(played: Played, table: Table) -> None:
    """Rows as of commits, each asked for by the last key it had."""
    stories = list(_stories(played, table).items())
    moments = list(_moments(played, table, 6))
    keys = {tuple(table.key(n).values()): n for n in (*KEYS, BETWEEN)}
    for rid, facts in played.histories.random.sample(stories, min(6, len(stories))):
        last = _noted(table, facts, _first_key(table, rid))[-1][1]
        finder = played.finder(table, keys[last])
        rows = map(finder.follow, finder.spans)
        row = next((found for found in rows if _rid(finder, found) == rid), None)
        if row is None:
            assert rid < 0, (table, rid)
            continue
        for moment in moments:
            state = row_as_of(
                reading_session(),
                played.recording.slot,
                0,
                {},
                lsn=moment.lsn,
                finder=finder,
                row=row,
            )
            if rid in moment.content:
                moment.holds(state, rid, (table, rid))
            else:
                assert not state.exists, (table, rid, moment.lsn, state)


def _rid(finder: RowFinder, row: FoundRow) -> int | None:
    """The number of a row, as the first change that has it tells."""
    steps = finder.steps(row.events)
    return next((int(s.after["rid"]) for s in steps if "rid" in s.after), None)
