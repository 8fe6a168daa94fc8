"""The checker finds what is wrong: a test that cannot fail proves nothing.

A small workload is recorded without any fault; the checker has nothing to say. Then the store is
falsified, one way at a time, and it must say so.
"""

import random
import time

import pytest
from django.db import connection

from replview.store.models import Slot, Transaction
from tests.chaos.check import Verdict, check
from tests.chaos.quiet import end_prepared
from tests.chaos.sessions import Workload
from tests.chaos.tables import schema
from tests.support.recording import Recording
from tests.support.source_databases import SourceDatabase

pytestmark = pytest.mark.slow
_SECONDS = 6.0


@pytest.fixture
def recording(source: SourceDatabase, record) -> Recording:
    """A workload of some seconds, stored to its end."""
    source.run(*schema("chaos", source.version))
    made: Recording = record(source, start=False)
    source.run("SELECT pg_create_logical_replication_slot('witness', 'pgoutput')")
    slot = Slot.objects.get(pk=made.slot.pk)
    slot.publications = ["chaos"]
    slot.save()
    made.slot = slot
    workload = Workload(source.connect, seed=1)
    made.start()
    made.streaming()
    workload.start()
    time.sleep(_SECONDS)
    workload.stop()
    with source.connect() as session:
        end_prepared(session, random.Random(1))
    source.run("INSERT INTO ddl_log (kind) VALUES ('end')")
    source.run(
        "INSERT INTO ledger SELECT -1, 0, xmin::text::bigint, NULL, NULL, 1, 0 FROM ddl_log "
        "WHERE kind = 'end'"
    )
    made.caught_up()
    made.end()
    return made


def _verdict(recording: Recording) -> Verdict:
    with recording.source.connect() as session:
        return check(session, recording.slot, witness_slot="witness", publication="chaos")


def _falsify(statement: str, *parameters: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        assert cursor.rowcount, "nothing was falsified"


def _one(recording: Recording, **filters: object) -> Transaction:
    """A transaction in the middle of history that inserted something."""
    found = Transaction.objects.filter(
        incarnation__slot=recording.slot, state="committed", inserts__gt=1, **filters
    ).order_by("commit_seq")
    return found[len(found) // 2]


@pytest.mark.long
def test_what_was_falsified_is_found(recording: Recording) -> None:
    verdict = _verdict(recording)
    assert verdict.findings == []
    assert verdict.transactions > 50

    for falsify, kinds in _FALSIFICATIONS:
        connection.set_autocommit(False)
        try:
            falsify(recording)
            found = _verdict(recording).kinds
        finally:
            connection.rollback()
            connection.set_autocommit(True)
        assert set(kinds) <= set(found), f"{falsify.__name__}: {found}"
    assert _verdict(recording).findings == []


#: The insert of a row that nothing happened to later, so that it matters to the table's end.
_LASTING = """
    SELECT c.transaction_id, c.seq FROM change c
    JOIN transaction t ON t.id = c.transaction_id AND t.state = 'committed'
    WHERE c.op = 'I' AND c.new ? 'note' AND c.key_hash IS NOT NULL AND NOT EXISTS
          (SELECT FROM aborted_subtransaction a
           WHERE a.transaction_id = c.transaction_id AND a.subxid = c.subxid)
      AND NOT EXISTS
          (SELECT FROM change o WHERE o.relation_id = c.relation_id
             AND (o.transaction_id, o.seq) <> (c.transaction_id, c.seq)
             AND (o.op = 'T' OR c.key_hash IN (o.key_hash, o.old_key_hash)))
    ORDER BY t.commit_seq LIMIT 1
"""


def lose_a_change(recording: Recording) -> None:
    """Delete a row of ``change``."""
    _falsify(f"DELETE FROM change WHERE (transaction_id, seq) = ({_LASTING})")


def lose_a_transaction(recording: Recording) -> None:
    """A whole transaction is gone, the numbers after it closed up."""
    lost = _one(recording)
    _falsify("DELETE FROM transaction WHERE id = %s", lost.pk)
    _close_up(lost)


def _close_up(lost: Transaction) -> None:
    # In two steps: the places are unique at every moment.
    for shift in (1_000_000, -1_000_001):
        _falsify(
            "UPDATE transaction SET commit_seq = commit_seq + %s WHERE incarnation_id = %s "
            "AND commit_seq > %s",
            shift,
            lost.incarnation_id,
            lost.commit_seq,
        )
    _falsify(
        "UPDATE slot_incarnation SET commit_seq = commit_seq - 1 WHERE id = %s",
        lost.incarnation_id,
    )


def double_a_transaction(recording: Recording) -> None:
    """A transaction stands there twice, the second time at the end."""
    doubled = _one(recording)
    for table, key in (("transaction", "id"), ("change", "transaction_id")):
        _falsify(
            f"""
            INSERT INTO {table} SELECT (jsonb_populate_record(t, %s::jsonb)).*
            FROM {table} t WHERE {key} = %s
            """,
            _copied(recording, key),
            doubled.pk,
        )
    _falsify("UPDATE slot_incarnation SET commit_seq = commit_seq + 1")


def _copied(recording: Recording, key: str) -> str:
    last = Transaction.objects.filter(incarnation__slot=recording.slot).order_by("-pk")[0]
    seq = max(t.commit_seq or 0 for t in recording.transactions())
    place = f', "commit_seq": {seq + 1}' if key == "id" else ""
    number = last.pk + 1 if key == "id" else last.pk
    return f'{{"{key}": {number}{place}}}'


def swap_two_transactions(recording: Recording) -> None:
    """Two neighbours in each other's place."""
    first = _one(recording)
    for before, after in (
        (first.commit_seq, -1),
        (first.commit_seq + 1, first.commit_seq),
        (-1, first.commit_seq + 1),
    ):
        _falsify(
            "UPDATE transaction SET commit_seq = %s WHERE incarnation_id = %s AND commit_seq = %s",
            after,
            first.incarnation_id,
            before,
        )


def change_a_value(recording: Recording) -> None:
    """Change a value of a row."""
    _falsify(
        """UPDATE change SET new = new || '{"note": "falsified"}'::jsonb """
        f"WHERE (transaction_id, seq) = ({_LASTING})"
    )


def forget_an_abort(recording: Recording) -> None:
    """The tombstone of an aborted subtransaction is gone: its changes count."""
    _falsify(
        "DELETE FROM aborted_subtransaction a USING change c, transaction t "
        "WHERE c.transaction_id = a.transaction_id AND c.subxid = a.subxid "
        "AND t.id = a.transaction_id AND t.state = 'committed'"
    )


def leave_one_open(recording: Recording) -> None:
    """A transaction that ended is shown as going on."""
    _falsify(
        "UPDATE transaction SET state = 'streaming' WHERE id = (SELECT id FROM transaction "
        "WHERE state IN ('aborted', 'rolled back') LIMIT 1)"
    )


def invent_a_commit(recording: Recording) -> None:
    """Turn a transaction that rolled back into a commit."""
    seq = max(t.commit_seq or 0 for t in recording.transactions()) + 1
    _falsify(
        "UPDATE transaction SET state = 'committed', commit_seq = %s, commit_lsn = end_lsn "
        "WHERE id = (SELECT id FROM transaction WHERE state = 'rolled back' LIMIT 1)",
        seq,
    )
    _falsify("UPDATE slot_incarnation SET commit_seq = %s", seq)


_FALSIFICATIONS = [
    (lose_a_change, ["mismatched", "ledger", "rows"]),
    (lose_a_transaction, ["lost", "ledger"]),
    (double_a_transaction, ["doubled", "ledger", "rows", "misordered"]),
    (swap_two_transactions, ["misordered"]),
    (change_a_value, ["mismatched", "rows"]),
    (forget_an_abort, ["mismatched", "ledger"]),
    (leave_one_open, ["state"]),
    (invent_a_commit, ["ledger"]),
]
