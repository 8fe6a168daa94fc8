"""A row as of any commit, and what it was before any change, against the source's own truth."""

import pytest

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.store.models import Relation, Transaction
from replview.store.read.changes.of_transaction import changes_of
from replview.store.read.row_history.as_of import row_as_of
from replview.store.read.row_history.before_images import before_images
from replview.store.read.row_history.history import row_history
from tests.support.row_ledger import Ledger

pytestmark = pytest.mark.slow


@pytest.fixture(params=[1, 2, 3])
def played(request, source, record):
    """A ledger that was played and recorded from the beginning."""
    source.run("CREATE TABLE written (n serial)")
    ledger = Ledger(source, request.param)
    recording = record(source)
    ledger.play(60)
    recording.caught_up()
    recording.end()
    return ledger, recording


def _relation(recording, name: str) -> Relation:
    return Relation.objects.get(slot=recording.slot, table=name)


def test_the_row_as_of_every_commit_is_what_the_table_held(played) -> None:
    ledger, recording = played
    relation = _relation(recording, "plain")
    transactions = recording.transactions(state="committed")
    assert len(transactions) == len(ledger.contents)

    known = 0
    for transaction, content in zip(transactions, ledger.contents, strict=True):
        for key in "1234":
            state = row_as_of(
                reading_session(),
                recording.slot,
                relation.pk,
                {"id": key},
                lsn=int(LSN(transaction.commit_lsn)),
            )
            where = f"row {key} at {transaction.commit_lsn}"
            if state.key == (key,) and state.exists:
                assert state.values == {k: content[key][k] for k in state.values}, where
                known += 1
            elif key in content:
                raise AssertionError(f"{where}: not told of: {state}")
            elif state.exists:
                # The row that came to be known so later, or was so once.
                other = content[state.key[0]]
                assert state.values == {k: other[k] for k in state.values}, where
    assert known > 20


def _told(recording, key: str, *, table: str = "t") -> list[object]:
    """Return ``a`` of a row as of each transaction that changed rows, and now.

    For a row that is unknown, return the reason in place of ``a``.
    """
    asked = [{"lsn": int(LSN(each.commit_lsn))} for each in _changing(recording)]
    asked += [{"moment": each.commit_time} for each in _changing(recording)]
    relation = Relation.objects.filter(slot=recording.slot, table=table).first()
    states = [
        row_as_of(reading_session(), recording.slot, relation.pk, {"id": key}, **at)
        for at in (*asked, {})
    ]
    why = {state.why for state in states if state.exists is None}
    assert why <= {"table", "no change", "keyless"}
    found = [state.values["a"] if state.exists else state.why for state in states]
    by_lsn, by_time = found[: len(asked) // 2], found[len(asked) // 2 : -1]
    assert by_lsn == by_time
    return [*by_lsn, found[-1]]


def _changing(recording) -> list[Transaction]:
    return [each for each in recording.transactions(state="committed") if each.relations]


def test_rows_of_a_table_that_was_made_anew_are_unknown_since(source, record) -> None:
    table = "CREATE TABLE t (id int PRIMARY KEY, a text)"
    source.run(table)
    recording = record(source)
    for statements in (
        ["INSERT INTO t SELECT id, 'first' FROM generate_series(1, 4) AS id",
         "UPDATE t SET id = 5 WHERE id = 3", "DELETE FROM t WHERE id = 4"],
        ["DROP TABLE t", table, "INSERT INTO t VALUES (1, 'second')"],
        ["DROP TABLE t", table, "INSERT INTO t VALUES (6, 'third')",
         "INSERT INTO t VALUES (1, 'third')", "DELETE FROM t WHERE id = 1"],
    ):  # fmt: skip
        source.run(*statements)
        recording.caught_up()
    recording.end()

    first, unknown = ["first"] * 3, "table"
    assert _told(recording, "1") == [*first, "second", unknown, "third", "deleted", "deleted"]
    assert _told(recording, "2") == [*first, *[unknown] * 5]
    # Moved to another key, and deleted, before the table was.
    assert _told(recording, "3") == [*first, *[unknown] * 5]
    assert _told(recording, "4") == ["first", "first", *["deleted"] * 6]
    assert _told(recording, "6") == [*["no change"] * 4, *["third"] * 4]

    relation = Relation.objects.filter(slot=recording.slot, table="t").first()
    found = row_history(reading_session(), recording.slot, relation.pk, {"id": "1"})
    assert [period.ended for period in found.finder.periods] == ["delete", "table", "table"]
    assert [entry.step.op for entry in found.entries] == ["D", "I"]


def test_a_row_is_of_the_table_that_had_the_name(source, record) -> None:
    """A table that was recorded first takes the name of another, which keeps its rows."""
    source.run(*(f"CREATE TABLE {name} (id int PRIMARY KEY, a text)" for name in ("t", "other")))
    recording = record(source)
    source.run(
        "INSERT INTO other VALUES (1, 'of other')",
        "INSERT INTO t VALUES (1, 'of t'), (2, 'of t')",
        "UPDATE other SET a = 'of other, too'",
        "ALTER TABLE t RENAME TO former",
        "ALTER TABLE other RENAME TO t",
        "INSERT INTO t VALUES (3, 'of other')",
    )
    recording.caught_up()
    recording.end()

    there = ["of other, too"] * 2
    assert _told(recording, "1") == ["of other", "of t", "table", *there]
    assert _told(recording, "2") == ["no change", "of t", *["table"] * 3]
    assert _told(recording, "3") == [*["not created"] * 3, *["of other"] * 2]


def test_what_was_changed_while_rows_had_no_key_is_unknown(source, record) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, a text)")
    recording = record(source)
    for statements in (
        ["INSERT INTO t VALUES (1, 'one'), (2, 'two'), (4, 'four')"],
        ["ALTER TABLE t DROP CONSTRAINT t_pkey, REPLICA IDENTITY FULL",
         "UPDATE t SET a = 'other' WHERE id = 2", "DELETE FROM t WHERE id = 4"],
        ["ALTER TABLE t ADD PRIMARY KEY (id), REPLICA IDENTITY DEFAULT",
         "INSERT INTO t VALUES (4, 'again')", "UPDATE t SET a = 'last' WHERE id = 1"],
    ):  # fmt: skip
        source.run(*statements)
        recording.caught_up()
    recording.end()

    assert _told(recording, "1") == ["one", *["keyless"] * 3, "last", "last"]
    assert _told(recording, "2") == ["two", *["keyless"] * 5]
    assert _told(recording, "4") == [*["keyless"] * 2, "not created", *["again"] * 3]
    relation = Relation.objects.get(slot=recording.slot)
    found = row_history(reading_session(), recording.slot, relation.pk, {"id": "1"})
    assert found.finder.is_keyless
    assert [(e.step.op, e.before.why) for e in found.entries] == [("U", "keyless"), ("I", "")]
    [last] = [t for t in _changing(recording) if t.updates and t.commit_seq > 3]
    assert before_images(reading_session(), changes_of(reading_session(), last.pk)) == {}


def test_before_images_are_those_that_identity_full_sends(played) -> None:
    _, recording = played
    complete = partial = 0
    for transaction in recording.transactions(state="committed"):
        changes = changes_of(reading_session(), transaction.pk, limit=1000)
        truth = [c for c in changes if c.table == "twin" and c.op in "UD"]
        plain = [c for c in changes if c.table == "plain" and c.op in "UD"]
        derived = before_images(reading_session(), plain)
        for change, twin in zip(plain, truth, strict=True):
            before = derived[change.transaction_id, change.seq]
            assert before.image == {k: twin.old[k] for k in before.image}
            partial += len(before.image) < len(twin.old)
            complete += len(before.image) == len(twin.old)
    assert complete > 20
    assert not partial
