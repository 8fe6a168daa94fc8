"""A time or an LSN leads to a place in history, and so do the words of a filter."""

import datetime as dt
import time
from dataclasses import fields

import pytest

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.store.models import AbortedSubtransaction, Change, Transaction
from replview.store.read.history_places import first_seqs_from_lsn, last_seqs_at_time
from replview.store.read.transactions.fields import FIELDS
from replview.store.read.transactions.filter_values import read_time
from replview.store.read.transactions.listing import (
    ListCursor,
    cursor_at_lsn,
    cursor_at_time,
    find_transactions,
)
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.store.retention.tidy import make_partitions
from replview.store.sums import activity
from tests.support.history_rows import WHEN, History, insert

SECOND = dt.timedelta(seconds=1)


@pytest.fixture
def history(db, monkeypatch) -> History:
    """35 commits, one each ten seconds, 29 of them summed up; LSNs 1900, 2900, …"""
    for module in (
        "sums.activity",
        "read.transactions.streams",
        "read.transactions.reading",
        "read.history_places",
    ):
        monkeypatch.setattr(f"replview.store.{module}.BLOCK", 10)
    make_partitions()
    made = History()
    for number in range(1, 36):
        at = WHEN + 10 * number * SECOND
        made.commit(insert(number), commit_time=at, stored_at=at)
    activity.roll(time.monotonic() + 60)
    return made


@pytest.mark.parametrize(
    ("at", "expected"),
    [(9, 0), (10, 1), (15, 1), (40, 4), (55, 5), (71, 7), (285, 28), (315, 31), (1000, 35)],
)
def test_a_moment_is_a_place(history, at: int, expected: int) -> None:
    found = last_seqs_at_time(reading_session(), "", WHEN + at * SECOND)

    assert found == {history.incarnation.pk: expected}


@pytest.mark.parametrize(
    ("lsn", "expected"), [(1, 1), (5899, 5), (5900, 5), (5901, 6), (33_000, 33), (99_000, None)]
)
def test_an_lsn_is_a_place(history, lsn: int, expected: int | None) -> None:
    for slot in ("", str(history.slot)):
        found = first_seqs_from_lsn(reading_session(), slot, LSN(lsn))
        assert found == ({} if expected is None else {history.incarnation.pk: expected})
    assert first_seqs_from_lsn(reading_session(), "no/such", LSN(lsn)) == {}


def seqs(found) -> list[int | None]:
    return [row.commit_seq for row in found.rows]


def test_a_list_begins_at_a_time_or_at_the_commit_of_an_lsn(history) -> None:
    wanted = TransactionFilter()

    assert seqs(
        find_transactions(
            reading_session(),
            wanted,
            cursor=cursor_at_time(reading_session(), WHEN + 55 * SECOND),
            limit=2,
        )
    ) == [
        5,
        4,
    ]
    assert seqs(
        find_transactions(
            reading_session(), wanted, cursor=cursor_at_lsn(reading_session(), LSN(5000)), limit=2
        )
    ) == [5, 4]
    assert seqs(
        find_transactions(
            reading_session(), wanted, cursor=cursor_at_lsn(reading_session(), LSN(99999)), limit=1
        )
    ) == [35]


def test_a_text_is_found_in_values_that_count(history) -> None:
    aborted = history.commit(insert(1, subxid=9, new={"id": "1", "note": "needle"}))
    AbortedSubtransaction.objects.create(transaction_id=aborted, subxid=9)
    plain = history.commit(insert(2, new={"id": "2", "note": "A NEEDLE_here"}))
    history.commit(insert(3, new={"id": "3", "note": "needleXhere"}))

    found = find_transactions(reading_session(), TransactionFilter(text="needle_here"))

    assert [row.id for row in found.rows] == [plain]
    assert found.complete


def test_what_a_subtransaction_took_back_was_not_done(history) -> None:
    identifier = history.commit(insert(1, subxid=9), insert(2))
    Transaction.objects.filter(pk=identifier).update(
        aborted_changes=1, relations={str(history.orders.relation_id): [1, 0, 0, 0]}
    )
    Change.objects.filter(transaction_id=identifier, seq=1).update(op="D")
    AbortedSubtransaction.objects.create(transaction_id=identifier, subxid=9)

    def wanted(ops: str) -> set[int]:
        filter_ = TransactionFilter(tables=("public.orders",), ops=ops)
        return {row.id for row in find_transactions(reading_session(), filter_).rows}

    assert identifier not in wanted("D")
    assert identifier in wanted("I")


def test_a_search_that_runs_out_of_time_says_how_far_it_came(history, monkeypatch) -> None:
    monkeypatch.setattr("replview.store.read.transactions.streams.FIRST_CHUNK_OF_VALUES", 10)
    wanted = TransactionFilter(text="nowhere to be found")

    found = find_transactions(reading_session(), wanted, budget_seconds=0)

    assert (found.rows, found.complete) == ([], False)
    assert found.searched_back_to == WHEN + 260 * SECOND
    assert found.older.seqs == {history.incarnation.pk: 26}


def test_a_filter_is_what_its_words_say() -> None:
    words = {
        "slot": "shop/replview", "tables": "public.orders,public.b", "ops": "UD", "actor": "?",
        "states": "committed,open", "origin": "-", "q": "100%", "id": "42", "min_changes": "3",
        "min_bytes": "5", "prepared_min": "60", "since": "2h", "until": "2026-11-20T07:57:11+02:00",
        "from_lsn": "0/10", "to_lsn": "1/0",
    }  # fmt: skip

    assert TransactionFilter.from_words(words).words() == words
    assert TransactionFilter.from_words({"tables": ["a.b", "c.d"]}).tables == ("a.b", "c.d")
    assert TransactionFilter.from_words({"ops": "IUDTMS"}) == TransactionFilter()
    odd = TransactionFilter.from_words(
        {"since": "soon", "states": "odd", "to_lsn": "x", "ops": "q"}
    )
    assert odd == TransactionFilter()
    assert set(odd.misread) == {"since", "states", "to_lsn", "ops"}


def test_each_attribute_of_a_filter_is_a_field() -> None:
    attributes = {attribute.name: attribute.default for attribute in fields(TransactionFilter)}
    del attributes["misread"]

    assert [field.name for field in FIELDS] == list(attributes)
    assert all(field.default in (None, attributes[field.name]) for field in FIELDS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2026-11-20T07:57", "2026-11-20T07:57:00+00:00"), ("2026-11-20", "2026-11-20T00:00:00+00:00"),
     ("2026-11-20T07:57:00 02:00", "2026-11-20T05:57:00+00:00"),
     ("90min", "2026-11-20T06:27:11.369827+00:00"), ("7d", "2026-11-13T07:57:11.369827+00:00"),
     ("999999w", None), ("-1d", None), ("", None), ("0001-01-01T00:00+12:00", None)],
)  # fmt: skip
def test_times_are_read(text, expected) -> None:
    moment = read_time(text, now=WHEN)

    assert (moment and moment.isoformat()) == expected


@pytest.mark.parametrize("text", ["", "x", "c1", "c1.-2", "c1.2.3", "o1", "e1.2", "c1.2__", "c1.²"])
def test_a_cursor_that_was_not_written_here_is_refused(text) -> None:
    with pytest.raises(ValueError, match=r"cursor|int"):
        ListCursor.parse(text)
