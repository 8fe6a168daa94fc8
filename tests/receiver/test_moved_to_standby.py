"""A source moved to its promoted standby (PostgreSQL 18), while its slot is received."""

import threading
from collections.abc import Iterator

import pytest

from replview.acts import receiving
from replview.acts.moving import move_source, plan_move
from replview.acts.slot_making import make_slot
from replview.catalog.connections import connect
from replview.catalog.plan.new_slot import make_plan
from replview.catalog.plan.slot_request import SlotRequest
from replview.features.receiving.tasks import conninfo_of
from replview.receiver.run import receive
from replview.store.dsn import set_dsn
from replview.store.models import Slot, SlotEvent, Source, Transaction
from replview.store.retention.tidy import make_partitions
from tests.support.sampling import sample_source
from tests.support.source_databases import SourceDatabase
from tests.support.standby import PHYSICAL_SLOT, Pair
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A primary that sends nothing its standby has not got."""
    with Pair(synchronized_standby_slots=PHYSICAL_SLOT) as made:
        made.primary.create_database("shop")
        yield made


@pytest.fixture
def shop(pair: Pair) -> Source:
    """The primary's database as a source that was searched."""
    SourceDatabase(pair.primary, "shop").run("CREATE TABLE orders (id int PRIMARY KEY)")
    row = Source(name="shop")
    set_dsn(row, pair.primary.dsn("shop"))
    row.save()
    make_partitions()
    assert sample_source(row) is None
    row.refresh_from_db()
    return row


@pytest.fixture
def received(shop: Source, pair: Pair, request: pytest.FixtureRequest) -> Iterator[Slot]:
    """A slot that survives a failover, or one that does not; whenever nobody reads it, somebody
    begins, as beat has it.
    """
    dsn = pair.primary.dsn("shop")
    with connect(dsn) as connection:
        plan = make_plan(connection, SlotRequest(slot_name="mine", failover=request.param))
    slot = make_slot(shop, dsn, plan, print, stopped=False, options={})
    stop = threading.Event()

    def worker() -> None:
        while not stop.wait(0.1):
            receive(slot.pk, owner="test", stop=stop, conninfo_of=conninfo_of)

    thread = threading.Thread(target=worker)
    thread.start()
    yield slot
    stop.set()
    thread.join(30)
    assert not thread.is_alive()


def insert(shop: SourceDatabase, slot: Slot, *numbers: int) -> None:
    """Each in a transaction of its own; returns when they are stored."""
    stored = Transaction.objects.filter(incarnation__slot=slot, state="committed")
    before = stored.count()
    shop.run(*[f"INSERT INTO orders VALUES ({number})" for number in numbers])
    wait_for(lambda: stored.count() == before + len(numbers), 60, "all of it is stored")


def incarnations(slot: Slot) -> list[tuple[int, int]]:
    """Number and timeline of each."""
    return list(slot.incarnations.order_by("number").values_list("number", "timeline"))


@pytest.mark.parametrize("received", [True], indirect=True)
def test_the_synchronised_slot_goes_on_without_a_gap(
    pair: Pair, shop: Source, received: Slot
) -> None:
    insert(SourceDatabase(pair.primary, "shop"), received, 1, 2)
    pair.slot_is_synced("mine")
    promoted = pair.fail_over()

    move = plan_move(shop, promoted.dsn("shop"))
    assert (move.kind, [outcome.word for outcome in move.outcomes]) == ("timeline", ["goes on"])
    assert "the same cluster on another timeline" in move.act.consequences[0]
    assert move.act.typed == "shop"
    move_source(shop, promoted.dsn("shop"), by="alice", agreed=move.kind)
    insert(SourceDatabase(promoted, "shop"), received, 3)

    shop.refresh_from_db()
    assert (shop.timeline, shop.in_recovery) == (2, False)
    assert incarnations(received) == [(1, 1), (2, 2)]
    assert not SlotEvent.objects.filter(slot=received, kind="gap").exists()


@pytest.mark.parametrize("received", [False], indirect=True)
def test_a_slot_the_standby_never_had_is_said_to_be_missing_and_leaves_a_gap(
    pair: Pair, shop: Source, received: Slot
) -> None:
    insert(SourceDatabase(pair.primary, "shop"), received, 1, 2)
    promoted = pair.fail_over()
    there = SourceDatabase(promoted, "shop")

    move = plan_move(shop, promoted.dsn("shop"))
    assert (move.kind, [outcome.word for outcome in move.outcomes]) == ("timeline", ["missing"])
    move_source(shop, promoted.dsn("shop"), by="alice", agreed=move.kind)

    def is_missing() -> bool:
        received.refresh_from_db()
        return received.problem_code == "slot_missing"

    wait_for(is_missing, 60, "the receiver finds no slot there")
    there.run("INSERT INTO orders VALUES (3)")
    act = receiving.plan_start(received)
    assert "history shows the gap" in act.consequences[0]
    receiving.start(received, by="alice")
    wait_for(lambda: len(incarnations(received)) == 2, 60, "a new incarnation begins")
    insert(there, received, 4)

    assert incarnations(received) == [(1, 1), (2, 2)]
    assert SlotEvent.objects.filter(slot=received, kind="gap").exists()
