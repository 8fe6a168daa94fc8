"""Reads of the record."""

import pytest

from replview.access.visibility import reading_session
from replview.store.read import history
from replview.store.read.changes.of_transaction import changes_of, matching_text, value_pieces
from replview.store.read.row_history.before_images import before_images
from tests.support.feeder import Feeder, NewChange, NewTransaction, single

pytestmark = pytest.mark.django_db(transaction=True)


def payment(number: int, subxid: int | None = None) -> NewChange:
    return NewChange("payments", "I", {"id": str(number), "method": "card"}, subxid=subxid)


def test_transactions_come_in_commit_order(quiet_feeder: Feeder) -> None:
    quiet_feeder.commit(*(single() for _ in range(10)))
    after = history.committed_after(reading_session(), quiet_feeder.incarnation_id, 4, 3)
    before = history.committed_before(reading_session(), quiet_feeder.incarnation_id, 4, 2)

    assert [row.commit_seq for row in after] == [5, 6, 7]
    assert [row.commit_seq for row in before] == [3, 2]


def test_it_hides_changes_of_aborted_subtransactions(quiet_feeder: Feeder) -> None:
    changes = [payment(1), payment(2, subxid=77), payment(3, subxid=78)]
    (identifier,) = quiet_feeder.commit(NewTransaction(changes))
    quiet_feeder.connection.execute(
        "INSERT INTO aborted_subtransaction (transaction_id, subxid, changes, swept)"
        " VALUES (%s, 77, 1, false)",
        [identifier],
    )

    assert [change.seq for change in changes_of(reading_session(), identifier)] == [1, 3]


def test_changes_come_a_page_at_a_time(quiet_feeder: Feeder) -> None:
    (identifier,) = quiet_feeder.commit(NewTransaction([payment(n) for n in range(120)]))
    page = changes_of(reading_session(), identifier, 50, 50)

    assert [change.seq for change in page] == list(range(51, 101))


def test_a_change_knows_its_table_and_key(quiet_feeder: Feeder) -> None:
    (identifier,) = quiet_feeder.commit(NewTransaction([payment(7)]))
    (change,) = changes_of(reading_session(), identifier)

    assert (change.schema, change.table, change.op) == ("public", "payments", "I")
    assert change.key_columns == ["id"]


def test_open_ones_leave_when_they_end(quiet_feeder: Feeder) -> None:
    opened = quiet_feeder.open(NewTransaction(state="streaming", streamed=True))
    before = history.open_transactions(reading_session(), quiet_feeder.slot_id)
    quiet_feeder.end(opened, "aborted")
    ended = history.ended_since(
        reading_session(), quiet_feeder.incarnation_id, before[0].received_at, 10
    )

    assert [row.id for row in before] == [opened]
    assert history.open_transactions(reading_session(), quiet_feeder.slot_id) == []
    assert [(row.id, row.state) for row in ended] == [(opened, "aborted")]


def test_the_row_before_is_derived_from_its_last_change(quiet_feeder: Feeder) -> None:
    order = {"id": "42", "status": "pending", "note": "ring twice"}
    paid = {"id": "42", "status": "paid"}
    other = {"id": "43", "status": "pending"}
    quiet_feeder.commit(NewTransaction([NewChange("orders", "I", order)]))
    quiet_feeder.commit(NewTransaction([NewChange("orders", "I", other)]))
    changes = [NewChange("orders", "U", paid), NewChange("orders", "U", {"id": "44"})]
    (identifier,) = quiet_feeder.commit(NewTransaction(changes))
    previous = before_images(reading_session(), changes_of(reading_session(), identifier))

    assert {seq: found.image for (_, seq), found in previous.items()} == {1: order}


def test_an_aborted_transaction_is_nobody_s_before(quiet_feeder: Feeder) -> None:
    order = {"id": "42", "status": "pending"}
    quiet_feeder.commit(NewTransaction([NewChange("orders", "I", order)]))
    lost = [NewChange("orders", "U", {"id": "42", "status": "lost"})]
    quiet_feeder.commit(NewTransaction(lost, state="aborted"))
    paid = [NewChange("orders", "U", {"id": "42", "status": "paid"})]
    (identifier,) = quiet_feeder.commit(NewTransaction(paid))
    previous = before_images(reading_session(), changes_of(reading_session(), identifier))

    assert previous[identifier, 1].image == order


def test_text_is_looked_for_in_values_not_in_column_names(quiet_feeder: Feeder) -> None:
    ids = quiet_feeder.commit(NewTransaction([payment(1)]), NewTransaction([payment(2)]))

    assert matching_text(reading_session(), ids, "CARD") == set(ids)
    assert matching_text(reading_session(), ids, "method") == set()
    assert matching_text(reading_session(), ids, "c_r%") == set()


def test_a_whole_value_is_read_by_name(quiet_feeder: Feeder) -> None:
    change = NewChange("orders", "I", {"id": "1", "note": "x" * 5000})
    (identifier,) = quiet_feeder.commit(NewTransaction([change]))

    assert (
        "".join(value_pieces(reading_session(), identifier, 1, "new", "note") or ()) == "x" * 5000
    )
    assert value_pieces(reading_session(), identifier, 1, "new", "no such") is None
    assert value_pieces(reading_session(), identifier, 1, "seq; --", "note") is None


def test_a_value_kept_aside_is_put_together(quiet_feeder: Feeder) -> None:
    change = NewChange("orders", "I", {"id": "1", "note": {"$aside": 6}})
    (identifier,) = quiet_feeder.commit(NewTransaction([change]))
    for piece, content in enumerate(("abc", "def")):
        quiet_feeder.connection.execute(
            'INSERT INTO large_value (transaction_id, seq, side, "column", piece, content)'
            " VALUES (%s, 1, 'new', 'note', %s, %s)",
            [identifier, piece, content],
        )

    assert "".join(value_pieces(reading_session(), identifier, 1, "new", "note") or ()) == "abcdef"
