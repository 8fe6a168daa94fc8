"""Lists leave out changes that savepoints, aborts and ROLLBACK PREPARED undid.

The number in every list equals ``SELECT count(*)`` over the changes that stand.
"""

import io
import json
from collections import Counter

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

from replview.access.visibility import reading_session
from replview.store.models import Transaction
from replview.store.read.transactions.listing import find_transactions
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.store.sums import actor_sums, relation_sums
from tests.support.people import make_user
from tests.support.recording import Recording
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def an_instance(settings) -> None:
    settings.STORE_URL = "postgresql://the-test-store/"


SHOP = "CREATE TABLE t (n int PRIMARY KEY, v text); CREATE TABLE passing (n int PRIMARY KEY)"
#: Beyond logical_decoding_work_mem, so that it is streamed.
BIG = "INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series({}, {}) i"
COLUMNS = {"I": "inserts", "U": "updates", "D": "deletes", "T": "truncates", "M": "messages"}

STANDING = """
    SELECT t.id, c.relation_id, c.op::text, count(*)
    FROM transaction t JOIN change c ON c.transaction_id = t.id
    WHERE t.state NOT IN ('discarded', 'aborted', 'rolled back') AND NOT EXISTS (
        SELECT FROM aborted_subtransaction a
        WHERE a.transaction_id = c.transaction_id AND a.subxid = c.subxid)
    GROUP BY 1, 2, 3
"""


def standing() -> dict[tuple[int, int | None, str], int]:
    """``(transaction, relation, operation)`` → changes that stand, counted one by one."""
    with connection.cursor() as cursor:
        cursor.execute(STANDING)
        return {(row[0], row[1], row[2]): row[3] for row in cursor.fetchall()}


def of_rows(recording: Recording) -> dict[tuple[int, int | None, str], int]:
    """Return the counts in the transactions' own rows, by transaction, relation and operation.

    Asserts that each total of a transaction is the sum over its tables.
    """
    found: Counter = Counter()
    lost = ("aborted", "rolled back")
    for row in (row for row in recording.transactions() if row.state not in lost):
        totals: Counter = Counter({"M": row.messages})
        for relation, counts in row.relations.items():
            for op, number in zip("IUDT", counts, strict=True):
                found[row.pk, int(relation), op] += number
                totals[op] += number
        found[row.pk, None, "M"] += row.messages
        assert {name: totals[op] for op, name in COLUMNS.items()} == {
            name: getattr(row, name) for name in COLUMNS.values()
        }
    return dict(+found)


def every_list_is_true(recording: Recording) -> None:
    """All lists and totals against the changes that stand."""
    recording.slot.refresh_from_db()
    truth = standing()
    assert of_rows(recording) == truth
    assert recording.slot.changes == sum(truth.values())
    committed = {row.pk for row in recording.transactions() if row.commit_seq is not None}
    by_table: Counter = Counter()
    for (transaction, relation, _), number in truth.items():
        if relation is not None and transaction in committed:
            by_table[relation] += number
    sums = relation_sums.sums_of_slot(recording.slot.pk).by_relation
    assert {key: found.changes for key, found in sums.items()} == dict(by_table)
    actors = actor_sums.actors_of(actor_sums.span_of(recording.slot.pk)).rows
    assert sum(actor.changes for actor in actors) == by_table.total()
    said = io.StringIO()
    call_command("slot", "list", "--format=json", stdout=said)
    [slot] = json.loads(said.getvalue())
    assert slot["changes_stored"] == sum(truth.values())
    assert slot["changes_rolled_back"] == recording.slot.changes_rolled_back


def streaming(recording: Recording) -> Transaction:
    return wait_for(lambda: recording.transactions(state="streaming"))[0]


@pytest.mark.pg(14)
@pytest.mark.parametrize("kept", [50_000, 1], ids=["counted on the way", "recounted at the end"])
def test_a_savepoint_rolled_back_after_it_was_streamed(
    any_source: SourceDatabase, record, monkeypatch, kept: int
) -> None:
    monkeypatch.setattr("replview.receiver.storing.encoding.COUNTED_SUBTRANSACTIONS", kept)
    any_source.run(SHOP)
    recording = record(any_source)
    with any_source.connect() as session:
        session.execute("BEGIN")
        session.execute(BIG.format(1, 2000))
        session.execute("SAVEPOINT outer_one")
        session.execute("UPDATE t SET v = repeat('y', 100) WHERE n <= 700")
        session.execute("INSERT INTO passing SELECT generate_series(1, 40)")
        session.execute("SAVEPOINT inner_one")
        session.execute(BIG.format(2001, 4000))
        session.execute("RELEASE inner_one")
        session.execute("SAVEPOINT inner_two")
        session.execute("DELETE FROM t WHERE n > 3900")
        wait_for(lambda: sum(row.received for row in recording.transactions()) > 4300)
        session.execute("ROLLBACK TO outer_one")
        session.execute(BIG.format(5001, 8000))
        if kept > 1:
            wait_for(lambda: streaming(recording).aborted_changes)
            assert streaming(recording).updates == 0
        session.execute("COMMIT")
    recording.caught_up()

    every_list_is_true(recording)
    [row] = recording.transactions()
    assert (row.inserts, row.updates, row.deletes, len(row.relations)) == (5000, 0, 0, 1)
    assert row.aborted_changes == recording.slot.changes_rolled_back >= 2000
    # A table of which nothing is left is not among those that it touched.
    wanted = TransactionFilter(tables=("public.passing",))
    assert not find_transactions(reading_session(), wanted).rows
    assert find_transactions(reading_session(), TransactionFilter(min_changes=5000)).rows
    assert not find_transactions(reading_session(), TransactionFilter(min_changes=5001)).rows
    client = Client()
    client.force_login(make_user("carol", role="viewer"))
    page = client.get(f"/transactions/{row.pk}/").content.decode()
    assert "changed 5,000 rows in 1 table" in page
    assert f"{row.aborted_changes:,} changes rolled back to a savepoint" in page
    assert f">{row.aborted_changes:,}</s>" in client.get("/transactions/").content.decode()


def test_a_savepoint_rolled_back_before_anything_was_streamed(
    source: SourceDatabase, record
) -> None:
    source.run(SHOP)
    recording = record(source)
    with source.connect() as session:
        session.execute("BEGIN")
        session.execute("INSERT INTO t VALUES (1), (2)")
        session.execute("SAVEPOINT s")
        session.execute("INSERT INTO t VALUES (3)")
        session.execute("ROLLBACK TO s")
        session.execute("UPDATE t SET v = 'b'")
        session.execute("COMMIT")
    recording.caught_up()

    every_list_is_true(recording)
    [row] = recording.transactions()
    assert (row.inserts, row.updates, row.aborted_changes) == (2, 2, 0)


@pytest.mark.pg(14)
def test_one_that_aborts_whole_says_all_that_it_did_and_none_of_it_counts(
    source: SourceDatabase, record
) -> None:
    source.run(SHOP)
    recording = record(source)
    source.run("INSERT INTO t VALUES (-1)")
    with source.connect() as session:
        session.execute("BEGIN")
        session.execute(BIG.format(1, 2000))
        session.execute("SAVEPOINT s")
        session.execute(BIG.format(2001, 5000))
        wait_for(lambda: sum(row.received for row in recording.transactions()) > 4300)
        session.execute("ROLLBACK")
    [row] = wait_for(lambda: recording.transactions(state="aborted"))

    every_list_is_true(recording)
    assert row.inserts > 4300
    assert row.aborted_changes == 0
    assert recording.slot.changes == 1
    assert recording.slot.changes_rolled_back == row.inserts


@pytest.mark.pg(15)
@pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK"])
def test_a_prepared_transaction_counts_unless_it_is_rolled_back(
    source: SourceDatabase, record, ending: str
) -> None:
    source.run(SHOP)
    recording = record(source)
    with source.connect() as session:
        session.execute("BEGIN")
        session.execute(BIG.format(1, 2000))
        session.execute("SAVEPOINT s")
        session.execute(BIG.format(2001, 5000))
        wait_for(lambda: sum(row.received for row in recording.transactions()) > 4300)
        session.execute("ROLLBACK TO s")
        session.execute("PREPARE TRANSACTION 'once'")
    wait_for(lambda: recording.transactions(state="prepared"))
    every_list_is_true(recording)
    source.run(f"{ending} PREPARED 'once'")
    recording.caught_up()

    every_list_is_true(recording)
    assert recording.slot.changes == (2000 if ending == "COMMIT" else 0)


@pytest.mark.pg(14)
def test_what_is_received_anew_after_a_restart_counts_once(source: SourceDatabase, record) -> None:
    source.run(SHOP)
    recording = record(source)
    with source.connect() as session:
        session.execute("BEGIN")
        session.execute(BIG.format(1, 3000))
        session.execute("SAVEPOINT s")
        session.execute(BIG.format(3001, 6000))
        wait_for(lambda: sum(row.received for row in recording.transactions()) > 5000)
        session.execute("ROLLBACK TO s")
        session.execute(BIG.format(6001, 8000))
        wait_for(lambda: streaming(recording).aborted_changes)
        recording.end()
        recording.start("another")
        recording.streaming()
        session.execute("COMMIT")
    recording.caught_up()

    every_list_is_true(recording)
    assert recording.slot.changes == 5000
    assert recording.slot.changes_discarded > 0
