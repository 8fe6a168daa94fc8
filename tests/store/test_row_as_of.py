"""A row as of any commit, and what it was before any change, against the source's own truth."""

import pytest

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.store.models import Relation
from replview.store.read.changes.of_transaction import changes_of
from replview.store.read.row_history.as_of import row_as_of
from replview.store.read.row_history.before_images import before_images
from tests.receiver.conftest import record as record  # a fixture
from tests.store.row_ledger import Ledger

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
