"""Compares the record's answers about histories with the notes of the source's own triggers."""

import datetime as dt
import itertools
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from django.test import Client

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.catalog.stream_shape import columns_made
from replview.store.models import Relation, RelationVersion, Transaction
from replview.store.read.changes.as_sql import TransactionUndo, undo_sql, undo_transaction
from replview.store.read.changes.of_transaction import changes_of
from replview.store.read.coverage import Coverage, coverage_of
from replview.store.read.row_history.as_of import RowState, bounded, row_as_of
from replview.store.read.row_history.before_images import before_images
from replview.store.read.row_history.finding import RowFinder
from replview.store.read.row_history.finding import TracedRow as FoundRow
from replview.store.read.row_history.history import history_of
from replview.store.read.row_history.keys import TableRows, table_of
from replview.store.read.row_history.replay import HistoryEntry
from replview.store.read.rows import ChangeRow
from tests.store.read.replay import Replay
from tests.support.histories import Histories
from tests.support.history_tables import (
    BETWEEN,
    KEYS,
    Commit,
    Content,
    Fact,
    Row,
    Table,
    apply,
    copied,
    literal,
)
from tests.support.recorded import iterate_changes
from tests.support.recording import Recording

#: The columns that every table has from its creation to its end.
_BASE = ("rid", "id", "part", "a", "n", "big")
#: A change: transaction and seq.
Place = tuple[int, int]
#: A change with what was noted of it.
Pair = tuple[ChangeRow, Fact]
Item = TypeVar("Item")
_HOUR = dt.timedelta(hours=1)


@dataclass
class Played:
    """Histories, the record of them, and where in it each noted change is."""

    histories: Histories
    recording: Recording
    transactions: dict[int, Transaction]
    #: The changes of each commit, by xid, with the facts noted of them.
    changes: dict[int, list[Pair]]

    def rows_of(self, table: Table) -> TableRows | None:
        """The table as the record has it; None: it has nothing of it."""
        relations = Relation.objects.filter(slot=self.recording.slot).order_by("-pk")
        for relation in relations:
            if of_table(relation.table) == table.name:
                return table_of(reading_session(), self.recording.slot, relation.pk)
        return None

    @property
    def tables(self) -> list[tuple[Table, TableRows]]:
        """Return the tables whose rows the record tells apart."""
        found = [(table, self.rows_of(table)) for table in self.histories.tables]
        return [(table, rows) for table, rows in found if rows is not None and rows.key_columns]

    def named(self, *names: str) -> set[int]:
        """The oids of the tables that had one of these names when something of them was sent."""
        sent = {fact.oid for _, fact in self.pairs if fact.called in names}
        # A transaction that was rolled back may have sent the name that a table began with.
        facts = (fact for commit in self.histories.timeline for fact in commit.facts)
        shapes = RelationVersion.objects.filter(relation__slot=self.recording.slot, table__in=names)
        told = set(shapes.values_list("relation__oid", flat=True))
        return sent | {f.oid for f in facts if {f.called, f.table} & {*names} and f.oid in told}

    def rids(self, table: Table, rows: TableRows) -> set[int]:
        """The rows of the tables that are asked under a name: others had it, or will have it."""
        found = Relation.objects.filter(pk__in=rows.relation_ids).values_list("oid", flat=True)
        facts = (fact for commit in self.histories.timeline for fact in commit.facts)
        mine = [fact for fact in facts if fact.table == table.name and fact.oid in found]
        rids = {fact.rid for fact in mine if fact.rid is not None}
        return rids | set(table.begun() if table.oid in found else ())

    def finder(self, table: Table, rows: TableRows, key: int) -> RowFinder:
        hashes = rows.hashes(table.key(key))
        return RowFinder(reading_session(), self.recording.slot, rows, hashes)

    def lsn(self, xid: int) -> int:
        return int(LSN(self.transactions[xid].commit_lsn))

    @property
    def pairs(self) -> list[Pair]:
        return [pair for each in self.changes.values() for pair in each]

    def some(self, items: Collection[Item], number: int) -> list[Item]:
        """Return ``number`` of the items at random, or all if there are fewer."""
        return self.histories.random.sample(list(items), min(number, len(items)))


def of_table(name: str) -> str:
    """The name under which a table was created."""
    return "_".join(name.split("_")[:2])


def played(histories: Histories, recording: Recording, lapsed: Collection[int] = ()) -> Played:
    """Pair the recorded changes with the noted facts, and assert that they match in order.

    The changes of ``lapsed`` commits (by number) are left out: some of them may be missing.
    """
    committed = recording.transactions(state="committed")
    transactions = {t.xid: t for t in committed if t.xid is not None}
    changes = {}
    left_out = {histories.commits[number].xid for number in lapsed}
    for commit in histories.commits:
        if commit.xid not in transactions or commit.xid in left_out:
            continue
        found = [
            change
            for change in changes_of(
                reading_session(), transactions[commit.xid].pk, limit=1_000_000
            )
            if change.op != "M"
        ]
        noted = [(fact.called, fact.op) for fact in commit.changes]
        assert [(change.table, change.op) for change in found] == noted
        changes[commit.xid] = list(zip(found, commit.changes, strict=True))
    return Played(histories, recording, transactions, changes)


def hold(played: Played, program: Client, browser: Client) -> None:
    """Every answer over a record in which nothing is missing."""
    assert {t.state for t in played.recording.transactions()} <= {
        "committed", "aborted", "rolled back", "message", "snapshot"
    }  # fmt: skip
    assert played.changes.keys() == {commit.xid for commit in played.histories.commits}
    hold_values(played)
    _hold_before_images(played)
    _hold_records(played)
    _hold_counts(played, program)
    _hold_filters(played, program)
    _hold_messages(played, program)
    _hold_snapshots(played, program)
    _hold_find(played, program)
    _hold_search(played, program, browser)
    _hold_ends(played)
    for table, rows in played.tables:
        _hold_page(played, program, table, rows)
        _hold_histories(played, table, rows)
        hold_keys(played, table, rows)
        _hold_rows(played, table, rows)
    _hold_before_changes(played)
    _hold_undo_of_changes(played)
    _hold_undo_of_transactions(played)


def _known(found: Mapping[str, Any], noted: Row | None, where: object) -> None:
    """Assert that every value found for a row is as noted."""
    assert noted is not None, where
    assert found.items() <= noted.items(), (where, dict(found.items() - noted.items()), noted)


def _base(row: Mapping[str, Any]) -> Row:
    return {name: row[name] for name in _BASE if name in row}


def hold_values(played: Played) -> None:
    """Each change is as it was noted, and nothing false is told of the row before it."""
    pairs = played.pairs
    for change, fact in pairs:
        if change.op in "IU":
            _known(change.new or {}, fact.new, change)
        if change.op in "UD" and change.old_kind == "O":
            assert _base(change.old or {}) == _base(fact.old or {})
    found = before_images(reading_session(), [change for change, _ in pairs])
    for change, fact in pairs:
        before = found.get((change.transaction_id, change.seq))
        if before is not None:
            _known(before.image, fact.old, change)


def _hold_before_images(played: Played) -> None:
    """The row before each change is known whole of a row that the record saw made."""
    found = before_images(reading_session(), [change for change, _ in played.pairs])
    for change, fact in played.pairs:
        before = found.get((change.transaction_id, change.seq))
        if fact.op in "UD" and (fact.rid or 0) > 0 and change.old_kind != "O":
            assert before is not None, (change, fact)
            is_whole = _base(dict(before.image)) == _base(fact.old or {})
            assert is_whole or _may_be_altered(played, change, fact), (change, fact)


def _may_be_altered(played: Played, change: ChangeRow, fact: Fact) -> bool:
    """Return whether the catalog cannot say if the table was altered: it is gone by now, or its
    rows are not in its first file, and by the xids, what created it may be a savepoint of a
    transaction that changed it between the row's insert and this change.
    """
    with played.histories.source.connect() as session:
        now = columns_made(session, fact.oid, None)
    if all(file == fact.oid for _, _, file in now.columns.values()):
        return not now.columns
    pairs = [(LSN.parse(c.lsn), c, f) for c, f in played.pairs if f.oid == fact.oid]
    begin = min(lsn for lsn, _, f in pairs if f.rid == fact.rid)
    ids = {c.transaction_id for lsn, c, _ in pairs if begin <= lsn <= LSN.parse(change.lsn)}
    return any(t.pk in ids and xid <= now.created for xid, t in played.transactions.items())


_OPS = {"I": "insert", "U": "update", "D": "delete", "T": "truncate"}


def perhaps(played: Played, commit: Commit) -> bool:
    """Return True if the stream does not say whether one of the commit's claims was rolled back."""
    transaction = played.transactions[commit.xid]
    grades = [part["grade"] for part in transaction.actors or ()]
    return "perhaps" in (*grades, transaction.actor_grade)


def _hold_records(played: Played) -> None:
    """``replview changes``: every change once, in order; replayed, they leave the same rows."""
    slot = played.recording.slot
    records = [record for _, record in iterate_changes(reading_session(), slot)]
    mine = [r for r in records if r["op"] not in ("message", "snapshot")]
    facts = [(commit, fact) for commit in played.histories.commits for fact in commit.changes]
    assert len(mine) == len(facts)
    for record, (commit, fact) in zip(mine, facts, strict=True):
        told = record["xid"], record["table"], record["op"]
        assert told == (commit.xid, fact.called, _OPS[fact.op]), record
        assert perhaps(played, commit) or (record["actor"] or "") == fact.actor, (record, commit)
    seqs = {commit.xid: played.transactions[commit.xid].commit_seq for commit in
            played.histories.commits}  # fmt: skip
    for table, _ in played.tables:
        if table.deferrable:
            continue  # two rows may have one key at once
        of_it = [r for r in records if r["table"] and of_table(r["table"]) == table.name]
        replay = Replay(table.key_columns).play(of_it)
        unseen = played.histories.unseen(table)
        for commit, (content, _), (gone, _) in zip(
            played.histories.commits, played.histories.contents(table), unseen[:-1], strict=True
        ):
            rows = replay.moments.get(seqs[commit.xid] or 0)
            if rows is None:
                continue
            there = {k: _base(r) for k, r in rows.items() if r and int(r.get("rid", 0)) not in gone}
            held = {table.key_of(row): _base(row) for row in content.values()}
            for key, row in there.items():
                _known(row, held.get(key), (table, commit.xid, key))
            made = {k: row for k, row in held.items() if int(row["rid"] or 0) > 0}
            assert made.items() <= {key: there.get(key) for key in made}.items(), commit.xid


def _pages(program: Client, address: str, **words: str | int) -> Iterator[dict[str, Any]]:
    """All pages of a list of the API."""
    cursor: str | None = ""
    while cursor is not None:
        answer = program.get(address, {**words, "cursor": cursor, "limit": 1000})
        assert answer.status_code == 200, (answer.content, words)
        page: dict[str, Any] = answer.json()
        yield page
        is_last = page.get("complete") and "/history" in address
        cursor = None if is_last else page["older"] if "older" in page else page["next"]


def _items(program: Client, address: str, **words: str | int) -> Iterator[dict[str, Any]]:
    for page in _pages(program, address, **words):
        yield from page["items"]


def _tally(facts: list[Fact]) -> dict[str, int]:
    counted = Counter(fact.op for fact in facts)
    return {word: counted[letter] for letter, word in _OPS.items()}


def _hold_counts(played: Played, program: Client) -> None:
    slot = str(played.recording.slot)
    commits = played.histories.commits
    listed = {t["id"]: t for t in _items(program, "/api/v1/transactions", slot=slot)}
    for commit in commits:
        told = listed[played.transactions[commit.xid].pk]
        counts = {word: told["counts"][word] for word in _OPS.values()}
        assert counts == _tally(commit.changes), (commit.xid, told)
        for name in {fact.table for fact in commit.changes}:
            mine = _tally([fact for fact in commit.changes if fact.table == name])
            of_it = [each for each in told["tables"] if of_table(each["table"] or "") == name]
            assert {word: sum(e[word] for e in of_it) for word in _OPS.values()} == mine, told
    for state in {t["state"] for t in listed.values()}:
        found = _items(program, "/api/v1/transactions", slot=slot, states=state)
        assert {t["id"] for t in found} == {i for i, t in listed.items() if t["state"] == state}
    everything = [fact for commit in commits for fact in commit.changes]
    played.recording.slot.refresh_from_db()
    messages = sum(t["counts"]["message"] for t in listed.values() if t["state"] == "committed")
    baselines = sum(t["counts"]["insert"] for t in listed.values() if t["state"] == "snapshot")
    assert played.recording.slot.changes == len(everything) + messages + baselines
    relations = program.get("/api/v1/relations", {"slot": slot}).json()["items"]
    assert {of_table(r["table"]) for r in relations} >= {fact.table for fact in everything}
    for name in {of_table(relation["table"]) for relation in relations}:
        mine = _tally([fact for fact in everything if fact.table == name])
        of_it = [relation for relation in relations if of_table(relation["table"]) == name]
        assert {word: sum(e[f"{word}s"] for e in of_it) for word in _OPS.values()} == mine, of_it
    actors = program.get("/api/v1/actors", {"slot": slot}).json()["items"]
    if any(perhaps(played, commit) for commit in commits):
        return
    assert {actor["actor"] or "" for actor in actors} >= {fact.actor for fact in everything}
    for actor in actors:
        mine = _tally([fact for fact in everything if fact.actor == (actor["actor"] or "")])
        assert {word: actor[f"{word}s"] for word in _OPS.values()} == mine, actor


#: A filter's words; which commits pass, by number; which of their changes do, where not all.
Asked = tuple[dict[str, str | int], Callable[[int], bool], Callable[[Fact], bool]]


def _hold_filters(played: Played, program: Client) -> None:
    """Compare filtered lists: transactions, changes found, and changes in the order of history."""
    slot, commits = str(played.recording.slot), played.histories.commits
    if len(commits) < 2:
        return
    ordered = [played.transactions[commit.xid] for commit in commits]
    of_histories = {t.pk for t in ordered}
    asked = list(_filters(played, ordered))
    for words, holds, _ in asked:
        items = _items(program, "/api/v1/transactions", slot=slot, states="committed", **words)
        found = {t["id"] for t in items} & of_histories
        assert found == {t.pk for n, t in enumerate(ordered) if holds(n)}, words
    for words, holds, of_change in played.some(asked, 5):
        expected = [
            (change.transaction_id, change.seq)
            for number, commit in enumerate(commits) if holds(number)
            for change, fact in played.changes[commit.xid] if of_change(fact)
        ]  # fmt: skip
        followed = [
            (r["transaction"], r["seq"])
            for r in _items(program, "/api/v1/history", slot=slot, **words)
            if r["op"] in _OPS.values()
        ]
        assert followed == expected, words
        found_changes = [
            (r["transaction"], r["seq"])
            for r in _items(program, "/api/v1/changes", slot=slot, **words)
            if r["op"] in _OPS.values()
        ]
        assert sorted(found_changes) == sorted(expected), words


def _hold_messages(played: Played, program: Client) -> None:
    """The messages alone, under ``ops=M``: those that count, and of a stream perhaps more."""
    slot, transactions = str(played.recording.slot), played.recording.transactions()
    by_xid = {t.xid: t for t in transactions if t.state == "committed"}
    for address, order in (("history", 1), ("changes", -1)):
        found: dict[int, list[str]] = {}
        for record in list(_items(program, f"/api/v1/{address}", slot=slot, ops="M"))[::order]:
            assert (record["op"], record["prefix"]) == ("message", "replview"), record
            actor = json.loads(record["content"])["actor"]
            found.setdefault(record["xid"], []).append(actor)
        claimed = {xid: claims for xid, claims in played.histories.claims.items() if claims}
        in_order = [xid for xid in found if xid in claimed]
        assert in_order == list(claimed)
        for xid, actors in found.items():
            if by_xid[xid].streamed:
                rest = iter(actors)
                assert all(actor in rest for actor in claimed.get(xid, [])), (xid, actors)
            else:
                assert actors == claimed[xid], xid
    items = _items(program, "/api/v1/transactions", slot=slot, states="committed", ops="M")
    assert {t["xid"] for t in items} == found.keys()


def _hold_snapshots(played: Played, program: Client) -> None:
    """The rows that baselines read, under ``ops=S``: what the tables held then."""
    slot, tables = str(played.recording.slot), played.histories.baselines
    found: dict[str, list[Row]] = {name: [] for name in tables}
    for record in _items(program, "/api/v1/changes", slot=slot, ops="S"):
        assert record["op"] == "snapshot", record
        found[of_table(record["table"])].append(record["new"])
    for name, content in tables.items():
        held = sorted(content.values(), key=str)
        assert sorted(map(_sorted, found[name]), key=str) == sorted(map(_sorted, held), key=str)
    items = _items(program, "/api/v1/transactions", slot=slot, ops="S")
    assert [t["state"] for t in items] == ["snapshot"] * len(tables)


def _sorted(row: Row) -> Row:
    return dict(sorted(row.items()))


def _filters(played: Played, ordered: list[Transaction]) -> Iterator[Asked]:
    random, commits = played.histories.random, played.histories.commits
    low, high = sorted(random.sample(range(len(ordered)), 2))
    names = sorted({f.called for commit in commits for f in commit.changes})
    name, other = random.choice(names), random.choice(names)
    one, both = played.named(name), played.named(name, other)
    letters = "".join(random.sample("IUDT", 2))
    at_least, size = random.randrange(2, 6), random.choice(ordered).size_bytes
    some = random.choice(commits)

    def touches(number: int, tables: Collection[int], ops: str = "IUDT") -> bool:
        return any(f.oid in tables and f.op in ops for f in commits[number].changes)

    def every(fact: Fact) -> bool:
        return True

    # A table is found under all names that it had.
    yield ({"tables": f"public.{name}"}, lambda n: touches(n, one), lambda f: f.oid in one)
    yield ({"tables": f"public.{name},public.{other}"}, lambda n: touches(n, both),
           lambda f: f.oid in both)  # fmt: skip
    yield ({"tables": f"public.{name}", "ops": letters}, lambda n: touches(n, one, letters),
           lambda f: f.oid in one and f.op in letters)  # fmt: skip
    yield ({"ops": letters}, lambda n: any(f.op in letters for f in commits[n].changes),
           lambda f: f.op in letters)  # fmt: skip
    sure = not any(perhaps(played, commit) for commit in commits)
    for actor in sorted(set().union(*(commit.actors for commit in commits))) if sure else ():
        yield ({"actor": actor or "?"}, lambda n, a=actor: a in commits[n].actors,
               lambda f, a=actor: f.actor == a)  # fmt: skip
    yield {"origin": "-"}, lambda n: True, every
    yield {"origin": "elsewhere"}, lambda n: False, every
    yield {"id": some.xid}, lambda n: commits[n].xid == some.xid, every
    for transaction in [t for t in ordered if t.gid][:1]:
        yield {"id": transaction.gid or ""}, lambda n, t=transaction: ordered[n].pk == t.pk, every
        yield {"prepared_min": 3600}, lambda n: False, every
    yield ({"min_changes": at_least},
           # Messages of a savepoint that was rolled back stay in a stream.
           lambda n: len(commits[n].changes) + ordered[n].messages >= at_least,
           every)  # fmt: skip
    yield {"min_bytes": size}, lambda n: ordered[n].size_bytes >= size, every
    yield ({"from_lsn": ordered[low].commit_lsn, "to_lsn": ordered[high].commit_lsn},
           lambda n: low <= n <= high, every)  # fmt: skip
    since, until = ordered[low].commit_time, ordered[high].commit_time
    assert since is not None
    assert until is not None
    yield ({"since": since.isoformat(), "until": until.isoformat()},
           lambda n: since <= (ordered[n].commit_time or until) < until, every)  # fmt: skip


def _hold_find(played: Played, program: Client) -> None:
    """Found is what matches; what is not found is counted as unknown."""
    random = played.histories.random
    for table in played.some(played.histories.tables, 3):
        pairs = [pair for pair in played.pairs if pair[1].table == table.name]
        values = [row["a"] for _, f in pairs for row in (f.old, f.new) if row and row["a"]]
        if not values:
            continue
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
            ("a is not null", lambda old, row: row["a"] is not None),
            ("n > 9", lambda old, row: float(row["n"] or 0) > 9),
            ("n <= 100.5", lambda old, row: float(row["n"] or 0) <= 100.5),
            (f"big ~ {other}", lambda old, row, v=other: v in (row["big"] or "")),
            ("a changed", lambda old, row: bool(old and old["a"] != row["a"])),
            ("id changed", lambda old, row: bool(old and old["id"] != row["id"])),
            (f"a: {before or 'null'} -> {after or 'null'}",
             lambda old, row, b=before, a=after:
                 bool(old and b != a and (old["a"], row["a"]) == (b, a))),
            (f"n > 9 and a != {one}",
             lambda old, row, v=one: float(row["n"] or 0) > 9 and row["a"] not in (v, None)),
        ]  # fmt: skip
        for where, holds in played.some(asked, 6):
            # Under a name that the table got after its last change, nothing is recorded.
            _hold_condition(played, program, random.choice(pairs)[1], where, holds)


def _hold_condition(
    played: Played,
    program: Client,
    of: Fact,
    where: str,
    holds: Callable[[Row | None, Row], bool],
) -> None:
    words = {"slot": str(played.recording.slot), "tables": f"public.{of.called}",
             "where": where, "ops": "IUD"}  # fmt: skip
    oids = played.named(of.called)
    found: set[Place] = set()
    unknown = 0
    for page in _pages(program, "/api/v1/changes", **words):
        found |= {(one["transaction"], one["seq"]) for one in page["items"]}
        unknown += page["unknown"]
    expected = set()
    for change, fact in played.pairs:
        row = fact.old if fact.op == "D" else fact.new
        if fact.oid in oids and row is not None:
            both = fact.old if fact.op == "U" else None
            if holds(both, row):
                expected.add((change.transaction_id, change.seq))
    assert found <= expected, (words, found - expected)
    assert len(expected - found) <= unknown, (words, expected - found)


def _hold_search(played: Played, program: Client, browser: Client) -> None:
    """The box leads to a transaction; a text is found in what was sent."""
    for commit in played.some(played.histories.commits, 5):
        transaction = played.transactions[commit.xid]
        for text in (str(commit.xid), transaction.commit_lsn, transaction.gid):
            if text:
                answer = browser.get("/search/", {"q": text})
                assert answer.status_code == 302, (text, transaction)
                assert answer["Location"] == f"/transactions/{transaction.pk}/", text
    sent = [
        (change.transaction_id, fact.new["a"])
        for change, fact in played.pairs
        if fact.new and fact.new["a"] and change.seq <= 200
    ]
    for transaction_id, value in played.some(sent, 3):
        words = {"slot": str(played.recording.slot), "q": value}
        items = _items(program, "/api/v1/transactions", **words)
        found = {one["id"] for one in items}
        assert {at for at, held in sent if str(value).lower() in str(held).lower()} <= found, value
        for commit in played.histories.commits:
            held = [str(v) for f in commit.changes for r in (f.old, f.new) if r for v in r.values()]
            pk = played.transactions[commit.xid].pk
            assert pk not in found or str(value).lower() in " ".join(
                [*held, *commit.claims, str(commit.xid), str(played.transactions[commit.xid].gid),
                 *(f"public.{f.called} public.{f.table}" for f in commit.changes)]
            ).lower(), (value, pk)  # fmt: skip
        assert transaction_id in found
        # The same text asked of changes: all of the transactions that have it.
        all_changes = _items(program, "/api/v1/changes", **words)
        places = {(r["transaction"], r["seq"]) for r in all_changes if r["op"] in _OPS.values()}
        assert places == {
            (change.transaction_id, change.seq)
            for change, _ in played.pairs
            if change.transaction_id in found
        }, value


def _hold_ends(played: Played) -> None:
    """The row now is what the table holds; before the record and after it, nothing is known."""
    slot = played.recording.slot
    slot.refresh_from_db()
    first = slot.incarnations.order_by("number").first()
    assert slot.checkpoint_lsn is not None
    assert first is not None
    last = slot.last_commit_time or dt.datetime.now(dt.UTC)
    with played.histories.source.connect() as session:
        for table, rows in played.tables:
            relation = rows.relation.pk
            held = {table.key_of(row): (rid, row) for rid, row in
                    played.histories.held(session, table).items()}  # fmt: skip
            coverage = coverage_of(reading_session(), slot, table=("public", rows.relation.table))
            gone, _ = played.histories.unseen(table)[-1]
            for key in KEYS:
                words = table.key(key)
                now = row_as_of(reading_session(), slot, relation, words)
                where = (table, words, now)
                assert not bounded(now, coverage, now=last).beyond, where
                rid, row = held.get(tuple(words.values()), (0, None))
                if row is not None and (rid > 0 or now.exists is not None):
                    assert now.exists, where
                    # The catalog was looked at after the last ALTER TABLE.
                    _known(now.values, row, where)
                    assert rid < 0 or _base(now.values) == _base(row), where
                elif row is None and not _is_gone(now, gone):
                    assert not now.exists or now.key != tuple(words.values()), where
            words = table.key(played.histories.random.choice(KEYS))
            for at in ({"lsn": int(slot.checkpoint_lsn) + 1}, {"moment": last + _HOUR}):
                state = _as_of(played, rows, words, coverage, **at)
                assert state.beyond == "not stored", (table, words, at, state)
            begun = {"lsn": int(first.started_lsn or 1) - 1}, {"moment": first.started_at - _HOUR}
            for at in begun:
                state = _as_of(played, rows, words, coverage, **at)
                assert (state.exists, state.why) == (None, "before the record"), (table, at, state)


def _is_gone(state: RowState, gone: set[int]) -> bool:
    """Return True if the row may have gone with its table; its number may be unknown then."""
    return bool(gone) and int(state.values.get("rid") or next(iter(gone))) in gone


def hold_that_it_is_behind(played: Played) -> None:
    """While nothing receives what goes on, the row now is unknown."""
    slot = played.recording.slot
    slot.refresh_from_db()
    later = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=1)
    for table, rows in played.some(played.tables, 2):
        coverage = coverage_of(reading_session(), slot, table=("public", rows.relation.table))
        for key in KEYS:
            now = row_as_of(reading_session(), slot, rows.relation.pk, table.key(key))
            assert bounded(now, coverage, now=later).beyond == "not stored"


def hold_in_parts(played: Played, monkeypatch: Any) -> int:
    """Compare reads in parts with whole reads, unless cut short; return how many were in parts."""
    from replview.store.read.row_history import events

    tables = played.some(played.tables, 3)
    whole = {}
    for (table, rows), key in itertools.product(tables, KEYS):
        finder = played.finder(table, rows, key)
        for period in finder.periods:
            whole[period.events[-1].name] = finder.whole(finder.follow(period))
    limited = 0
    with monkeypatch.context() as patch:
        patch.setattr(events, "MOST_EVENTS", 5)
        for (table, rows), key in itertools.product(tables, KEYS):
            finder = played.finder(table, rows, key)
            limited += finder.limited
            for period in finder.periods:
                row = finder.follow(period)
                if not row.cut:
                    found = finder.whole(row)
                    last = period.events[-1].name
                    assert found == whole[last], (table, key, last, found, whole[last])
        for table, rows in tables:
            hold_keys(played, table, rows, limited=True)
    return limited


def hold_from_the_index(played: Played, monkeypatch: Any) -> None:
    """Compare full reads with reads from the index alone, as of rows with many changes."""
    from replview.store.read.row_history import events

    asked = [(table, rows, key) for table, rows in played.tables for key in KEYS]
    whole = [_periods(played.finder(*each)) for each in asked]
    with monkeypatch.context() as patch:
        patch.setattr(events, "AT_FIRST", 2)
        patch.setattr(events, "MOST_MOVES", 10_000)
        for each, expected in zip(asked, whole, strict=True):
            assert _periods(played.finder(*each)) == expected, each


def _periods(finder: RowFinder) -> list[tuple[Any, ...]]:
    """All that is known of the rows that had a key."""
    return [
        (p.begun, p.ended, p.ended_at, p.until, finder.whole(finder.follow(p)),
         [(event.text, event.op, event.at, event.commit_time) for event in p.events])
        for p in finder.periods
    ]  # fmt: skip


def _history(
    played: Played, table: Table, rows: TableRows, key: int, finder: RowFinder, change: Place
) -> Iterator[HistoryEntry]:
    """The whole history of a row, newest first; sometimes a few changes a page."""
    cursor: str | None = None
    limit = played.histories.random.choice((5, 50, 50))
    while True:
        page = history_of(finder, change=change, cursor=cursor, limit=limit)
        yield from page.entries
        cursor = page.older
        if cursor is None:
            return
        finder = played.finder(table, rows, key)


def _hold_page(played: Played, program: Client, table: Table, rows: TableRows) -> None:
    """The API's answers of one row: its history, and what it was after a commit."""
    stories = played.histories.stories(table.name)
    key = played.histories.random.choice(KEYS)
    typed = ", ".join(f"{name}={literal(value)}" for name, value in table.key(key).items())
    words = {"slot": str(played.recording.slot), "key": typed,
             "table": f"public.{rows.relation.table}"}  # fmt: skip
    page = program.get("/api/v1/rows", words).json()
    if page["complete"]:
        last = page["items"][-1]
        assert last["op"] == "insert"
        story = [_OPS[fact.op] for fact in stories[int(last["after"]["rid"])]]
        assert [each["op"] for each in page["items"] if each["op"] != "snapshot"] == story[::-1]
    for moment in _moments(played, table, rows, 1):
        at = {"lsn": str(LSN(moment.at["lsn"]))} if "lsn" in moment.at else {
            "at": moment.at["moment"].isoformat()}  # fmt: skip
        answer = program.get("/api/v1/rows/as-of", {**words, **at}).json()
        held = {table.key_of(row): row for row in moment.content.values()}
        row = held.get(tuple(table.key(key).values()))
        values = {n: v for n, v in answer["values"].items() if n not in moment.dropped}
        is_told = row is not None and int(row["rid"] or 0) > 0 and not moment.is_last
        if row is not None and (is_told or answer["exists"] is not None):
            assert answer["exists"], (table, words, at, answer)
            _known(values, row, (table, words, at, answer))


#: The events of a row, in order: the operation and the key it left.
Story = list[tuple[str, tuple[Any, ...]]]


def _told(entries: list[HistoryEntry], first: tuple[Any, ...]) -> tuple[set[int], Story]:
    """Return the row numbers found in the values, and the story of the entries, oldest first."""
    values = [state.values for entry in entries for state in (entry.before, entry.after)]
    rids = {int(each["rid"]) for each in values if "rid" in each}
    key, story = first, Story()
    for entry in (entry for entry in reversed(entries) if entry.step.op != "S"):
        key = key if entry.step.op == "T" else (entry.key_after or entry.key_before or ("?",))
        story.append((entry.step.op, key))
    return rids, story


def _noted(table: Table, facts: list[Fact], first: tuple[Any, ...]) -> Story:
    key, story = first, Story()
    for fact in facts:
        row = fact.new or fact.old
        key = table.key_of(row) if row else key
        story.append((fact.op, key))
    return story


def _stories(played: Played, table: Table, rows: TableRows) -> dict[int, list[Fact]]:
    """Return each row's facts by row number, without bulk rows: they are too many to read."""
    found, rids = played.histories.stories(table.name), played.rids(table, rows)
    return {
        rid: facts
        for rid, facts in found.items()
        if rid in rids
        and not any(row and row["a"] == "bulk" for row in (facts[0].old, facts[0].new))
    }


def _first_key(table: Table, rid: int) -> tuple[Any, ...]:
    """Return the key of a row from before the record; empty for other rows."""
    return tuple(table.key(-rid).values()) if rid < 0 else ()


def _hold_histories(played: Played, table: Table, rows: TableRows) -> None:
    """Every history is of one row, from its birth (or the record's beginning) to its end."""
    facts = _stories(played, table, rows)
    stories = {rid: _noted(table, each, _first_key(table, rid)) for rid, each in facts.items()}
    told: dict[int, Story] = {}
    nameless: list[Story] = []
    for key in (*KEYS, BETWEEN):
        finder = played.finder(table, rows, key)
        assert not finder.limited
        for period in finder.periods:
            entries = list(_history(played, table, rows, key, finder, period.events[-1].name))
            rids, story = _told(entries, tuple(table.key(key).values()))
            assert len(rids) <= 1, (table, key, rids, story)
            if rids:
                rid = rids.pop()
                told[rid] = story
                _hold_entries(played, entries, facts.get(rid, []))
            elif story not in nameless:
                nameless.append(story)
    # The number of a row from before the record is unknown if only its keys were sent.
    left = {rid: story for rid, story in stories.items() if rid not in told}
    assert told == {rid: stories.get(rid, []) for rid in told}, table
    assert all(rid < 0 for rid in left), (table, left)
    kept = [story for story in left.values() if [op for op, _ in story] != ["T"]]
    assert sorted(kept) == sorted(s for s in nameless if [op for op, _ in s] != ["T"]), table


def _hold_entries(played: Played, entries: list[HistoryEntry], facts: list[Fact]) -> None:
    """Each entry has the row before and after the change."""
    mine = [entry for entry in reversed(entries) if entry.step.op != "S"]
    assert len(mine) == len(facts), (mine, facts)
    for entry, fact in zip(mine, facts, strict=True):
        if fact.op in "UD":
            _known(entry.before.values, fact.old, entry)
        if fact.op in "IU":
            _known(entry.after.values, fact.new, entry)
            if (fact.rid or 0) > 0 and fact.oid in played.histories.there:
                assert _base(entry.after.values) == _base(fact.new or {}), entry


@dataclass(frozen=True)
class Moment:
    """The content of a table after a commit."""

    #: ``lsn`` or ``moment``, for ``row_as_of``.
    at: dict[str, Any]
    content: Content
    #: Columns it no longer had. The record tells of that only with the table's next change.
    dropped: set[str]
    #: Rows that went with their table. The same.
    gone: set[int]
    #: The table is made anew before anything else is recorded of it: whether its rows were still
    #: there is unknown.
    is_last: bool
    #: The table was made anew at some time.
    anew: bool

    def holds(self, state: RowState, rid: int, where: object, *, limited: bool = False) -> None:
        """Assert that the values of a row are true, and complete if the record saw the row made."""
        where = (where, self.at, state)
        if state.exists is None and (rid < 0 or (self.is_last and state.why == "table")):
            return
        assert state.exists, where
        row = self.content[rid]
        values = {n: v for n, v in state.values.items() if n not in self.dropped}
        _known(values, row, where)
        # Columns may have been altered in a table that was dropped before its catalog was read.
        unsure = {name for name, why in state.unknown.items() if why == "altered"}
        whole = {n: v for n, v in _base(row).items() if n not in (unsure if self.anew else ())}
        assert rid < 0 or limited or _base(values) == whole, where


def _moments(played: Played, table: Table, rows: TableRows, number: int) -> Iterator[Moment]:
    """Some commits, by position or by time."""
    histories, rids = played.histories, played.rids(table, rows)
    contents, unseen = histories.contents(table), histories.unseen(table)[:-1]
    all_of_them = list(zip(histories.commits, contents, unseen, strict=True))
    for commit, (content, dropped), last in played.some(all_of_them, number):
        at: dict[str, Any] = {"lsn": played.lsn(commit.xid)}
        if played.histories.random.random() < 0.5:
            at = {"moment": played.transactions[commit.xid].commit_time}
        content = {rid: row for rid, row in content.items() if rid in rids}
        anew = any(fact.op == "d" and fact.table == table.name
                   for each in histories.timeline for fact in each.facts)  # fmt: skip
        yield Moment(at, content, dropped, *last, anew)


def hold_keys(played: Played, table: Table, rows: TableRows, *, limited: bool = False) -> None:
    """The row that had a key as of a commit is the one that the table held; ``limited``: or it is
    said that not everything was looked at.
    """
    for moment in _moments(played, table, rows, 8):
        held = {table.key_of(row): rid for rid, row in moment.content.items()}
        for key in KEYS:
            words, slot = table.key(key), played.recording.slot
            state = row_as_of(reading_session(), slot, rows.relation.pk, words, **moment.at)
            where = (table, words)
            mine = tuple(words.values())
            if limited and state.exists is None:
                continue
            if mine in held:
                moment.holds(state, held[mine], where, limited=limited)
                assert state.key in (mine, None), (where, moment.at, state)
            elif state.exists and int(state.values.get("rid") or 0) not in {0, *moment.gone}:
                moment.holds(state, int(state.values["rid"]), where, limited=limited)


def _hold_rows(played: Played, table: Table, rows: TableRows) -> None:
    """Rows as of commits, each asked for by the last key it had."""
    stories = list(_stories(played, table, rows).items())
    moments = list(_moments(played, table, rows, 6))
    keys = {tuple(table.key(n).values()): n for n in (*KEYS, BETWEEN)}
    for rid, facts in played.some(stories, 6):
        last = _noted(table, facts, _first_key(table, rid))[-1][1]
        finder = played.finder(table, rows, keys[last])
        found_rows = map(finder.follow, finder.periods)
        row = next((found for found in found_rows if _rid(finder, found) == rid), None)
        if row is None:
            assert rid < 0, (table, rid)
            continue
        for moment in moments:
            state = row_as_of(
                reading_session(), played.recording.slot, 0, {}, finder=finder, row=row, **moment.at
            )
            if rid in moment.content:
                moment.holds(state, rid, (table, rid))
            elif rid not in moment.gone:
                assert not state.exists, (table, rid, moment.at, state)


def _rid(finder: RowFinder, row: FoundRow) -> int | None:
    """The number of a row, as the first change that has it tells."""
    steps = finder.steps(row.events)
    return next((int(s.after["rid"]) for s in steps if "rid" in s.after), None)


def _hold_before_changes(played: Played) -> None:
    """The row just before a change, which may be in the middle of a transaction."""
    tables = {table.name: (table, rows) for table, rows in played.tables if not table.deferrable}
    rids = {name: played.rids(*each) for name, each in tables.items()}
    asked = [(c, f) for c, f in played.pairs if f.op in "UD" and f.rid in rids.get(f.table, ())]
    for change, fact in played.some(asked, 25):
        table, rows = tables[fact.table]
        key = {name: (fact.old or {})[name] for name in table.key_columns}
        name = (change.transaction_id, change.seq)
        state = row_as_of(
            reading_session(), played.recording.slot, rows.relation.pk, key, before=name
        )
        where = (change, fact, state)
        if (fact.rid or 0) > 0:
            assert state.exists, where
            is_whole = _base(dict(state.values)) == _base(fact.old or {})
            assert is_whole or _may_be_altered(played, change, fact), where
        assert state.exists is not False, where
        _known(dict(state.values), fact.old, where)


def _hold_undo_of_changes(played: Played) -> None:
    """Each takes the table back to what it held just before the change."""
    histories, random = played.histories, played.histories.random
    with histories.source.connect() as session:
        _quiet(session, histories)
        for table in played.some(histories.tables, 4):
            number = _last_definition(histories, table.name)
            content = table.begun()
            if number > 0:
                content = copied(list(histories.contents(table))[number - 1][0])
            for commit in histories.commits[number:]:
                pairs = [p for p in played.changes[commit.xid] if p[1].table == table.name]
                for change, fact in pairs:
                    was = copied(content)
                    apply(content, fact)
                    if random.random() < 0.15:
                        _hold_undo(session, played, table, (change, fact), was, content)


def _last_definition(histories: Histories, table: str) -> int:
    """Count the commits up to the last one in or just before which the table was redefined."""
    numbers = range(len(histories.commits))
    return next((n for n in reversed(numbers) if histories.defined_since(table, n)), -1) + 1


def _hold_undo(
    session: psycopg.Connection, played: Played, table: Table, pair: Pair, was: Content,
    content: Content,
) -> None:  # fmt: skip
    change, fact = pair
    keys = Counter(table.key_of(row) for row in content.values())
    if max(keys.values(), default=0) > 1:
        return  # in the middle of a transaction with a deferrable key
    before = before_images(reading_session(), [change])
    made = undo_sql(change, before.get((change.transaction_id, change.seq)))
    if made.sql is None:
        is_unknown = fact.op == "T" or (fact.rid or 0) < 0 or "ALTER TABLE" in made.reason
        assert is_unknown, (pair, made.reason)
        return
    session.execute("BEGIN")
    session.execute("SET CONSTRAINTS ALL DEFERRED")
    played.histories.fill(session, table, content)
    session.execute(made.sql)
    held = played.histories.held(session, table)
    session.execute("ROLLBACK")
    assert _undone(held, made.sql) == _undone(was, made.sql), (pair, made.sql)


def _undone(content: Content, sql: str) -> Content:
    """Return the rows for a comparison, without the columns that the undo says it leaves out."""
    is_partial = "-- Left out," in sql
    return {rid: _base(row) if is_partial else row for rid, row in content.items()}


def _quiet(session: psycopg.Connection, histories: Histories) -> None:
    """Drop the publications and disable the triggers, so that filling and undoing are not recorded.

    Rows of a published table without a replica identity could not be deleted.
    """
    publications = session.execute("SELECT pubname FROM pg_publication").fetchall()
    for (name,) in publications:
        session.execute(f"DROP PUBLICATION {name}")
    for table in histories.tables:
        session.execute(f"ALTER TABLE {table.called} DISABLE TRIGGER USER")


def _hold_undo_of_transactions(played: Played) -> None:
    """Run the undo of each of the last transactions on the source, filled with its result."""
    histories = played.histories
    tables = {table.name: table for table in histories.tables}
    contents = {name: [c for c, _ in histories.contents(t)] for name, t in tables.items()}
    undone = 0
    with histories.source.connect() as session:
        for number, commit in list(enumerate(histories.commits))[-60:]:
            names = sorted({fact.table for fact in commit.changes})
            if number == 0 or any(histories.defined_since(name, number) for name in names):
                continue  # undo is for a table as it is
            made = _undo(played, commit)
            if made.sql is None:
                altered = all("ALTER TABLE" in r for r in made.reasons if not r.startswith("and "))
                assert altered or _has_unknown(commit), (commit, made.reasons)
                continue
            for name in names:
                histories.fill(session, tables[name], contents[name][number])
            session.execute(made.sql)
            for name in names:
                was, held = contents[name][number - 1], histories.held(session, tables[name])
                assert _undone(held, made.sql) == _undone(was, made.sql), (commit, made.sql)
            undone += 1
    assert undone > 5 or not histories.name.is_whole


def _undo(played: Played, commit: Commit) -> TransactionUndo:
    changes = changes_of(reading_session(), played.transactions[commit.xid].pk, limit=1_000_000)
    return undo_transaction(changes, before_images(reading_session(), changes))


def _has_unknown(commit: Commit) -> bool:
    """Return True if a row is from before the record, or went with a TRUNCATE."""
    return any(fact.op == "T" or (fact.rid or 0) < 0 for fact in commit.changes)


@dataclass
class Gapped:
    """Histories of which a middle part is not in the record."""

    played: Played
    #: Commits by number: the first that is not recorded, and the first that is again.
    lost: tuple[int, int]
    #: A position in the gap, after all of its commits; and a moment there.
    inside: int
    inside_at: dt.datetime
    #: Commits recorded just before and after the gap may be reported inside it.
    is_lapse: bool = False


def hold_around(gapped: Gapped) -> None:
    """Assert that answers about a gap are unknown, and none is false."""
    played, lost = gapped.played, range(*gapped.lost)
    commits = played.histories.commits
    assert [n for n, c in enumerate(commits) if c.xid not in played.transactions] == list(lost)
    hold_values(played)
    for table, rows in played.tables:
        _hold_table_around(gapped, table, rows)


def hold_what_is_told(played: Played) -> None:
    """Assert that nothing false is told by a complete record; much of it may be unknown."""
    hold_values(played)
    gapped = Gapped(played, (0, 0), 0, dt.datetime.now(dt.UTC))
    for table, rows in played.tables:
        _hold_known(gapped, table, rows)


def hold_around_lapse(gapped: Gapped) -> None:
    """Assert that answers about a lapse in the publication are unknown, and none is false."""
    hold_values(gapped.played)
    tables = gapped.played.tables
    assert tables or not gapped.played.histories.name.is_whole
    for table, rows in tables:
        _hold_table_around(gapped, table, rows)


def _hold_known(gapped: Gapped, table: Table, rows: TableRows) -> None:
    """Rows as of commits before and after the gap are so."""
    played, slot = gapped.played, gapped.played.recording.slot
    slot.refresh_from_db()
    coverage = coverage_of(reading_session(), slot, table=("public", rows.relation.table))
    contents = list(enumerate(played.histories.contents(table)))
    unseen, rids = played.histories.unseen(table), played.rids(table, rows)
    recorded = [pair for pair in contents if pair[0] not in range(*gapped.lost)]
    for number, (content, dropped) in played.some(recorded, 12):
        lsn = played.lsn(played.histories.commits[number].xid)
        held = {table.key_of(row): row for rid, row in content.items() if rid in rids}
        for key in KEYS:
            words = table.key(key)
            state = _as_of(played, rows, words, coverage, lsn=lsn)
            if _is_gone(state, unseen[number][0]):
                continue
            where = (table, words, number, state)
            if state.beyond and gapped.is_lapse:
                continue
            assert not state.beyond, where
            row = held.get(tuple(words.values()))
            if state.key not in (tuple(words.values()), None):
                continue  # it had another key then
            if state.exists is not None:
                assert state.exists == (row is not None), where
            values = {n: v for n, v in state.values.items() if n not in dropped}
            if row and str(row["rid"]) < "0":  # a row from before the record
                values = {n: v for n, v in values.items() if n in row}
            _known(values, row or {}, where)


def _hold_table_around(gapped: Gapped, table: Table, rows: TableRows) -> None:
    """Rows as of commits before and after the gap are so; inside, nothing is known."""
    _hold_known(gapped, table, rows)
    played, slot, lost = gapped.played, gapped.played.recording.slot, gapped.lost
    slot.refresh_from_db()
    coverage = coverage_of(reading_session(), slot, table=("public", rows.relation.table))
    inside = list(played.histories.contents(table))[lost[1] - 1][0]
    rids = played.rids(table, rows)
    held = {table.key_of(row): row for rid, row in inside.items() if rid in rids}
    for key in KEYS:
        for at in ({"lsn": gapped.inside}, {"moment": gapped.inside_at}):
            state = _as_of(played, rows, table.key(key), coverage, **at)
            if not gapped.is_lapse:
                assert state.beyond == "gap", (table, key, state)
            elif not state.beyond and state.exists is not None:
                # Some rows or operations may have been published all the while. A table that was
                # dropped meanwhile has a lapse without an end.
                row = held.get(tuple(table.key(key).values()))
                assert state.exists == (row is not None), (table, key, state)
                _known(_base(dict(state.values)), row or {}, (table, key, state))


def _as_of(
    played: Played, rows: TableRows, key: dict[str, str], coverage: Coverage, **at: Any
) -> RowState:
    slot = played.recording.slot
    return bounded(row_as_of(reading_session(), slot, rows.relation.pk, key, **at), coverage, **at)
