"""Sums over actors are the same from the stored sums and from later transactions."""

import datetime as dt
import time

import pytest

from replview.store.retention.tidy import make_partitions
from replview.store.sums import actor_sums
from replview.store.sums.activity import roll
from replview.store.sums.actor_sums import (
    ActorSum,
    actors_of,
    span_of,
    totals_of,
)
from tests.support.history_rows import WHEN, History, insert

DAY = dt.timedelta(days=1)


@pytest.fixture(autouse=True)
def partitions(db) -> None:
    make_partitions()


def delete(number: int) -> dict:
    return {"op": "D", "old_kind": "K", "old": {"id": str(number)}}


def a_history() -> History:
    """Three days: bob long ago, alice by claim and by stamp, and nobody."""
    history = History()
    history.commit(insert(1), actor="bob", actor_grade="stamped", commit_time=WHEN - 2 * DAY)
    history.commit(insert(2), actor="alice", actor_grade="claimed", commit_time=WHEN - DAY)
    history.commit(
        delete(2), relations={str(history.orders.relation_id): [0, 0, 1, 0]},
        actor="alice", actor_grade="stamped", commit_time=WHEN - DAY + dt.timedelta(hours=1),
    )  # fmt: skip
    history.commit(insert(3), insert(4), relations={str(history.orders.relation_id): [2, 0, 0, 0]})
    return history


def names(history: History, **wanted) -> list[str]:
    return [row.actor for row in actors_of(span_of(history.slot.pk), **wanted).rows]


def test_everybody_the_newest_first_and_nobody_named_among_them() -> None:
    found = actors_of(span_of(a_history().slot.pk))

    assert [row.actor for row in found.rows] == ["", "alice", "bob"]
    assert (found.actors, found.transactions, found.unknown, found.more) == (2, 4, 1, False)
    alice = found.rows[1]
    assert (alice.claimed, alice.stamped, alice.transactions, alice.changes) == (1, 1, 2, 2)
    assert (alice.inserts, alice.deletes) == (1, 1)


def test_what_is_summed_up_and_what_is_not_make_one_answer() -> None:
    history = a_history()
    before = _everything(history)
    # Up to the place 999, as if a thousand had come.
    history.incarnation.commit_seq = 999
    history.incarnation.save()
    assert roll(time.monotonic() + 10) == 1
    history.commit(insert(9), actor="carol", actor_grade="claimed")

    after = _everything(history)

    assert span_of(history.slot.pk).incarnations == ((history.incarnation.pk, 999),)
    assert after[0][0].actor == "carol"
    assert [_without_place(row) for row in after[0][1:]] == [_without_place(r) for r in before[0]]
    assert after[1] == before[1] | {"carol": after[1]["carol"]}
    assert [_without_place(done.whole) for done in after[1].values()] == [
        _without_place(row) for row in sorted(after[0], key=lambda r: list(after[1]).index(r.actor))
    ]


def _without_place(row: ActorSum) -> tuple:
    return (row.actor, row.transactions, row.inserts, row.deletes, row.claimed, row.last_time)


def _everything(history: History):
    span = span_of(history.slot.pk)
    everybody = ["", "alice", "bob", "carol"]
    return actors_of(span).rows, totals_of(span, everybody)


def test_by_day_and_by_table() -> None:
    history = a_history()

    done = totals_of(span_of(history.slot.pk), ["alice"])["alice"]
    [day], [table] = done.days, done.tables

    assert (day.day, day.transactions, day.changes) == ((WHEN - DAY).date(), 2, 2)
    assert (table.schema, table.table) == ("public", "orders")
    assert (table.relation_id, table.inserts, table.deletes) == (history.orders.relation_id, 1, 1)


def test_days_bound_the_answer() -> None:
    history = a_history()
    yesterday = (WHEN - DAY).date()
    span = span_of(history.slot.pk, yesterday, yesterday)

    assert [row.actor for row in actors_of(span).rows] == ["alice"]
    done = totals_of(span, ["alice", "bob"])
    assert list(done) == ["alice"]
    assert done["alice"].whole.transactions == 2


def test_a_part_of_the_name_finds_them_and_unknown_finds_nobody_named() -> None:
    history = a_history()

    assert names(history, text="LIC") == ["alice"]
    assert names(history, text="unkn") == [""]
    assert names(history, text="%") == []
    assert actors_of(span_of(history.slot.pk), text="nobody").rows == []


@pytest.mark.parametrize("sort", ["last", "transactions", "changes"])
def test_pages_follow_each_other_without_a_gap(sort: str) -> None:
    history = a_history()
    history.commit(insert(7), actor="dora", actor_grade="claimed")
    whole = names(history, sort=sort)

    found, after = [], None
    while True:
        page = actors_of(span_of(history.slot.pk), sort=sort, after=after, limit=1)
        found += [row.actor for row in page.rows]
        if not page.more:
            break
        after = (page.rows[-1].order, page.rows[-1].actor)

    assert found == whole
    assert sorted(whole) == ["", "alice", "bob", "dora"]


def test_all_incarnations_of_the_slot_count_and_no_other_slot() -> None:
    history = a_history()
    history.new_incarnation()
    history.commit(insert(5), actor="alice", actor_grade="claimed")
    History("another").commit(insert(5), actor="alice")

    assert totals_of(span_of(history.slot.pk), ["alice"])["alice"].whole.transactions == 3


def test_a_baseline_is_nobodys_doing() -> None:
    history = a_history()
    before = actors_of(span_of(history.slot.pk)).transactions
    history.commit(state="snapshot", commit_seq=history.incarnation.commit_seq + 1, inserts=5)

    assert actors_of(span_of(history.slot.pk)).transactions == before


def test_where_the_sums_are_far_behind_it_is_said(monkeypatch) -> None:
    monkeypatch.setattr(actor_sums, "RECENT_MOST", 3)
    history = a_history()

    assert span_of(history.slot.pk).left_out == 1
    assert names(history) == ["", "alice"]


def test_tables_of_one_day_alone() -> None:
    history = a_history()
    span, yesterday = span_of(history.slot.pk), (WHEN - DAY).date()

    on = totals_of(span, ["alice"], tables_on={"alice": yesterday})
    off = totals_of(span, ["alice"], tables_on={"alice": WHEN.date()})

    assert on == totals_of(span, ["alice"])
    assert (off["alice"].tables, off["alice"].days) == ([], on["alice"].days)
