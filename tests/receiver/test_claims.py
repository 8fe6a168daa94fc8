"""Several claims in one transaction: each counts from its message on, until the next one.

Every row says itself who wrote it, as the session knows it: what a change's actor is held against.
"""

import pytest

from replview.access.visibility import reading_session
from replview.store.read import history
from replview.store.read.changes.scan import ChangeScan
from replview.store.read.changes.wanted import WantedChanges
from tests.receiver.claims import ROWS, STREAMED, TRANSACTIONS, back, claim, row
from tests.support.source_databases import SourceDatabase


def scanned(recording, transaction, actor: str = "") -> list[tuple[str, str | None]]:
    """Return each inserted row's own ``who`` with the actor that the record gives for the row."""
    words = {"transaction": transaction.pk, "actor": actor}
    wanted = WantedChanges.from_words(recording.slot, words)
    batches = ChangeScan(reading_session(), wanted).batches()
    found = [pair for batch in batches for pair in batch.found if pair[1].op == "I"]
    return [(change.new["who"], row.actor_of(change.seq)) for row, change in found]


@pytest.mark.pg(16)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("two_phase", [False, True])
def test_each_change_is_of_the_last_claim_before_it(
    source: SourceDatabase, record, two_phase: bool, streamed: bool
) -> None:
    source.run(ROWS, *([STREAMED] if streamed else ()))
    recording = record(source)
    end = ("PREPARE TRANSACTION 'it'", "COMMIT PREPARED 'it'") if two_phase else ("COMMIT",)
    with source.connect() as connection:
        for statements, _ in TRANSACTIONS.values():
            for statement in ("BEGIN", *statements, *end):
                connection.execute(statement)
    recording.caught_up()

    stored = recording.transactions(state="committed")
    for transaction, (case, (statements, named)) in zip(stored, TRANSACTIONS.items(), strict=True):
        assert transaction.streamed == streamed
        found = scanned(recording, transaction)
        assert [said for said, _ in found] == [actor for _, actor in found], case
        assert len(found) == sum(s in (row("alice"), row("bob"), row("app"), row(None))
                                 for s in statements)  # fmt: skip
        [shown] = history.transactions_by_id(reading_session(), [transaction.pk])
        assert shown.names == named, case
        for name in named:
            mine = [pair for pair in found if pair[1] == name]
            assert scanned(recording, transaction, name or "?") == mine, case


@pytest.mark.pg(16)
def test_what_a_claim_said_that_was_rolled_back_is_not_kept(source: SourceDatabase, record) -> None:
    source.run(ROWS, STREAMED)
    recording = record(source)
    with source.connect() as connection:
        for statement in (
            "BEGIN", claim("alice", request="1"), row("alice"),
            *back(row("x"), claim("bob", request="2", only="x"), row("x")), "COMMIT",
        ):  # fmt: skip
            connection.execute(statement)
    recording.caught_up()

    [stored] = recording.transactions()
    assert (stored.streamed, stored.actor, stored.actors) == (True, "alice", None)
    assert stored.context == {"request": "1"}


@pytest.mark.pg(16)
def test_a_context_that_was_too_long_does_not_come_back_with_a_rollback(
    source: SourceDatabase, record
) -> None:
    source.run(ROWS, STREAMED)
    recording = record(source)
    with source.connect() as connection:
        for statement in (
            "BEGIN", claim("alice", first="x" * 40_000), row("alice"),
            claim("alice", second="x" * 40_000, request="2"), row("alice"),
            *back(row("x"), claim("bob", request="3"), row("x")), "COMMIT",
        ):  # fmt: skip
            connection.execute(statement)
    recording.caught_up()

    [stored] = recording.transactions()
    assert stored.context.keys() == {"first"}


@pytest.mark.pg(16)
def test_where_the_stream_does_not_say_it_the_claim_is_perhaps(
    source: SourceDatabase, record
) -> None:
    """A claim is graded "perhaps" if the stream does not say whether it was rolled back."""
    source.run(ROWS, STREAMED)
    recording = record(source)
    with source.connect() as connection:
        for statements in (
            [claim("alice"), *back(row("x")), row("alice")],
            [*back(claim("alice"), row("x")), row(None)],
        ):
            for statement in ("BEGIN", *statements, "COMMIT"):
                connection.execute(statement)
    recording.caught_up()

    for stored in recording.transactions():
        assert (stored.actor, stored.actor_grade) == ("alice", "perhaps")


def bulk(who: str) -> str:
    """More than the server holds in memory of a transaction."""
    return f"INSERT INTO rows (who) SELECT '{who}' FROM generate_series(1, 1000)"


#: Statements of a transaction; whom the page names, and the last one's grade.
LARGE = {
    "never sent": ([claim("alice"), row("alice"), *back(claim("bob"), row("x")), bulk("alice")],
                   ["alice"], "claimed"),
    "sent, and taken back": (
        [claim("alice"), bulk("alice"), *back(row("x"), claim("bob"), bulk("x")), bulk("alice")],
        ["alice"], "claimed",
    ),
    "sent in an inner one": (
        [claim("alice"), bulk("alice"), *back(row("x"), "SAVEPOINT t", row("x"), claim("bob"),
                                              bulk("x"), "RELEASE t"), bulk("alice")],
        ["alice"], "claimed",
    ),
    "kept before one": (
        [claim("alice"), bulk("alice"), claim("bob"), row("bob"), *back(bulk("x")), bulk("bob")],
        ["bob", "alice"], "claimed",
    ),
    "outside of the transaction": (
        [claim("alice"), bulk("alice"),
         *back(row("x"), claim("zoe").replace("true", "false"), bulk("x")), bulk("alice")],
        ["alice"], "claimed",
    ),
    # Nothing says whether the savepoint began before the claim or behind it.
    "first in its savepoint": (
        [claim("alice"), bulk("alice"), *back(claim("bob"), bulk("x")), bulk("alice")],
        ["bob", "alice"], "perhaps",
    ),
}  # fmt: skip


@pytest.mark.pg(14)
def test_a_claim_of_a_savepoint_that_a_large_transaction_rolled_back_is_none(
    source: SourceDatabase, record
) -> None:
    source.run(ROWS)
    recording = record(source)
    with source.connect() as connection:
        for statements, *_ in LARGE.values():
            for statement in ("BEGIN", *statements, "COMMIT"):
                connection.execute(statement)
    recording.caught_up()

    stored = recording.transactions(state="committed")
    for transaction, (case, (_, named, grade)) in zip(stored, LARGE.items(), strict=True):
        assert transaction.streamed, case
        [shown] = history.transactions_by_id(reading_session(), [transaction.pk])
        assert (shown.names, shown.actor_grade) == (named, grade), case
        found = scanned(recording, transaction)
        assert "x" not in {said for said, _ in found}, case
        assert grade == "perhaps" or all(said == actor for said, actor in found), case
    # The claim counts, whatever became of the savepoint.
    [message] = recording.transactions(state="message")
    assert (message.actor, message.actor_grade) == ("zoe", "claimed")
