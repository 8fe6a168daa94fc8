"""A lifecycle is shown in order, though its moments are of two clocks."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from django.test import Client

from replview.store.models import AbortedSubtransaction, Change, Slot, Transaction
from replview.store.read.days import transaction_id
from replview.ui.changes.stages import lifecycle_of
from tests.support.scene import Scene

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def moment(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def step(state: str, *, ours: float, theirs: float | None = None) -> SimpleNamespace:
    source_time = None if theirs is None else moment(theirs)
    return SimpleNamespace(
        state=state, source_time=source_time, recorded_at=moment(ours), lsn="0/1"
    )


def row(state: str) -> SimpleNamespace:
    return SimpleNamespace(
        streamed=True,
        received_at=moment(0.04),
        first_lsn="0/1",
        prepared_at=moment(0),
        prepare_lsn="0/2",
        state=state,
    )


def test_what_we_heard_of_late_is_not_told_after_what_came_next() -> None:
    steps = [step("streaming", ours=0.04), step("prepared", ours=0.05, theirs=0)]

    lifecycle = lifecycle_of(row("prepared"), steps, moment(10))

    assert lifecycle is not None
    assert [one.at for one in lifecycle.steps] == [NOON, NOON]
    assert lifecycle.steps[0].clock.startswith("at the latest")
    assert lifecycle.steps[1].clock == "the source's clock"


def test_moments_in_order_stay_as_they_are() -> None:
    steps = [step("streaming", ours=-5), step("prepared", ours=0.05, theirs=0)]

    lifecycle = lifecycle_of(row("prepared"), steps, moment(10))

    assert lifecycle is not None
    assert [one.at for one in lifecycle.steps] == [moment(-5), NOON]
    assert not lifecycle.steps[0].heard_late


def test_kept_changes_of_a_rolled_back_savepoint_are_marked(
    signed_in: Client, scene: Scene
) -> None:
    slot = next(iter(scene.slots.values()))
    Slot.objects.filter(pk=slot.pk).update(keep_aborted=True)
    identifier = transaction_id(777)
    Transaction.objects.create(
        id=identifier, incarnation=slot.incarnation, xid=9, state="committed", commit_seq=900_000,
        inserts=1, aborted_changes=1, received_at=NOON,
    )  # fmt: skip
    for seq, subxid in ((1, None), (2, 10)):
        Change.objects.create(
            transaction_id=identifier, seq=seq, lsn="0/1", subxid=subxid, op="I", new={"n": "1"}
        )
    AbortedSubtransaction.objects.create(transaction_id=identifier, subxid=10, changes=1)

    def blocks() -> tuple[int, int]:
        page = signed_in.get(f"/transactions/{identifier}/changes/").content.decode()
        return page.count('class="block change'), page.count(">rolled back<")

    assert blocks() == (2, 1)
    Slot.objects.filter(pk=slot.pk).update(keep_aborted=False)
    assert blocks() == (1, 0)
