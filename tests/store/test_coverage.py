"""Coverage says what the record vouches for, and when it may say "no change"."""

import datetime as dt

import pytest

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.store.looks import store_publication_look
from replview.store.models import Baseline, SlotEvent, SlotIncarnation, SlotSample
from replview.store.read.coverage import coverage_of
from tests.support.history_rows import History, insert
from tests.support.vouched_history import ORDERS, ago, gap, published
from tests.support.vouched_history import history as history

pytestmark = pytest.mark.django_db


def test_a_slot_that_never_connected_covers_nothing() -> None:
    history = History()
    SlotIncarnation.objects.all().delete()
    found = coverage_of(reading_session(), history.slot)

    assert (found.incarnations, found.recorded_since, found.stored_until) == (0, None, None)
    assert not found.says_no_change()


def test_it_reaches_from_the_first_incarnation_to_what_is_stored(history: History) -> None:
    found = coverage_of(reading_session(), history.slot)

    assert found.recorded_since == ago(10)
    assert found.recorded_since_lsn == "0/1F4"
    assert found.stored_until == ago(1)
    assert found.says_no_change(ago(10), ago(1))
    assert not found.says_no_change(ago(11), ago(1))
    assert not found.says_no_change(ago(10), ago(0.5))


def test_what_waited_in_an_adopted_slot_is_covered_too(history: History) -> None:
    history.incarnation.transaction_set.filter(commit_seq=1).update(commit_time=ago(20))

    assert coverage_of(reading_session(), history.slot).recorded_since == ago(20)


def test_a_baseline_vouches_for_no_time_before_it(history: History) -> None:
    SlotIncarnation.objects.filter(pk=history.incarnation.pk).update(started_at=ago(2))
    history.incarnation.transaction_set.update(state="snapshot")

    assert coverage_of(reading_session(), history.slot).recorded_since == ago(2)


def test_a_quiet_slot_is_stored_until_its_server_was_last_seen_no_further(
    history: History,
) -> None:
    now = dt.datetime.now(dt.UTC)
    SlotSample.objects.bulk_create(
        [
            SlotSample(slot_id=history.slot.pk, sampled_at=now - dt.timedelta(seconds=age),
                       current_lsn=lsn, detail={})
            for age, lsn in ((30, LSN(4999)), (20, LSN(5000)), (10, LSN(5001)))
        ]
    )  # fmt: skip

    assert coverage_of(reading_session(), history.slot).stored_until == now - dt.timedelta(
        seconds=25
    )


def test_no_change_is_not_said_across_a_gap(history: History) -> None:
    history.commit(insert(2), commit_time=ago(5))
    gap(history, ago(4))
    found = coverage_of(reading_session(), history.slot)

    [hole] = found.gaps
    assert (hole.from_time, hole.to_time) == (ago(5), ago(4))
    assert (hole.from_lsn, hole.to_lsn, hole.incarnation) == ("0/1388", "0/2328", 2)
    assert found.vouched_since == ago(4)
    assert found.says_no_change(ago(4), ago(1))
    assert found.says_no_change(ago(9), ago(6))
    assert not found.says_no_change(ago(9), ago(4.5))
    assert not found.says_no_change(ago(4.5), ago(1))


def test_only_the_gaps_of_the_time_asked_for_are_told(history: History) -> None:
    gap(history, ago(4))

    assert coverage_of(reading_session(), history.slot, since=ago(3)).gaps == ()
    assert coverage_of(reading_session(), history.slot, until=ago(9.5)).gaps == ()
    assert len(coverage_of(reading_session(), history.slot, since=ago(5), until=ago(4.5)).gaps) == 1
    assert not coverage_of(reading_session(), history.slot, since=ago(3)).says_no_change(
        ago(8), ago(1)
    )


def test_what_was_left_out_is_a_gap_too(history: History) -> None:
    identifier = history.commit(insert(3), state="committed", commit_time=ago(5))
    SlotEvent.objects.create(
        slot=history.slot, incarnation=history.incarnation, at=ago(4.9), kind="skipped",
        message="Transaction 702 was left out.", detail={"transaction": identifier},
    )  # fmt: skip
    found = coverage_of(reading_session(), history.slot)

    assert [g.kind for g in found.gaps] == ["skipped"]
    assert not found.says_no_change(ago(9), ago(1))
    assert found.says_no_change(ago(4.8), ago(1))


def test_of_a_table_nobody_looked_at_nothing_is_said(history: History) -> None:
    found = coverage_of(reading_session(), history.slot, table=ORDERS)

    assert found.table.published is None
    assert found.vouched_since is None
    assert not found.says_no_change(ago(9), ago(1))


def test_a_table_is_vouched_for_since_it_was_seen_published(history: History) -> None:
    published(history, ago(8))
    found = coverage_of(reading_session(), history.slot, table=ORDERS)

    assert found.table.published
    assert found.table.whole
    assert found.vouched_since == ago(8)
    assert found.says_no_change()
    assert not found.says_no_change(ago(9), ago(1))


def test_an_operation_that_was_added_is_vouched_for_since_then(history: History) -> None:
    published(history, ago(8), operations="I")
    published(history, ago(3))

    assert coverage_of(reading_session(), history.slot, table=ORDERS).vouched_since == ago(3)
    then = coverage_of(reading_session(), history.slot, table=ORDERS, until=ago(5))
    assert then.table.operations_missing == "UDT"
    assert not then.says_no_change(ago(7), ago(5))
    assert then.says_no_change(ago(7), ago(5), operations="I")


def test_an_operation_that_was_taken_away_does_not_cut_what_was_known(history: History) -> None:
    published(history, ago(8))
    published(history, ago(3), operations="I")
    found = coverage_of(reading_session(), history.slot, table=ORDERS)

    assert not found.says_no_change(ago(7), ago(1))
    assert found.says_no_change(ago(7), ago(1), operations="I")


def test_a_table_that_is_not_published_or_narrowed_says_nothing(history: History) -> None:
    published(history, ago(8), operations="")
    assert coverage_of(reading_session(), history.slot, table=ORDERS).table.published is False
    assert not coverage_of(reading_session(), history.slot, table=ORDERS).says_no_change(
        ago(7), ago(1)
    )

    published(history, ago(6), row_filter="(id > 7)", unpublished_columns=["card"])
    found = coverage_of(reading_session(), history.slot, table=ORDERS)
    assert found.table.row_filter == "(id > 7)"
    assert found.table.unpublished_columns == ("card",)
    assert not found.says_no_change(ago(5), ago(1))


def test_a_partitioned_table_has_what_all_its_partitions_have(history: History) -> None:
    facts = {
        "tables": [
            {"schema": "public", "table": f"parts_{number}", "root": "public.parts",
             "operations": operations, "unpublished_columns": [], "row_filter": None}
            for number, operations in ((1, "IUDT"), (2, "IU"))
        ]
    }  # fmt: skip
    store_publication_look(history.slot, facts, ago(8))

    assert (
        coverage_of(
            reading_session(), history.slot, table=("public", "parts")
        ).table.operations_missing
        == "DT"
    )


def test_what_other_servers_wrote_may_be_left_out(history: History) -> None:
    history.slot.options = {"origin": "none"}

    assert not coverage_of(reading_session(), history.slot).says_no_change(ago(9), ago(1))


def test_the_last_baseline_of_the_table_is_told(history: History) -> None:
    for state in ("done", "failed"):
        Baseline.objects.create(slot=history.slot, schema="public", table="orders", state=state)

    assert coverage_of(reading_session(), history.slot, table=ORDERS).table.baseline is not None
    assert (
        coverage_of(reading_session(), history.slot, table=("public", "other")).table.baseline
        is None
    )


def test_it_takes_few_reads(history: History, django_assert_num_queries) -> None:
    published(history, ago(8))
    with django_assert_num_queries(3):
        coverage_of(reading_session(), history.slot, table=ORDERS)
    with django_assert_num_queries(2):
        coverage_of(reading_session(), history.slot)
