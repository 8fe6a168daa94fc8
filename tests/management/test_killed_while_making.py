"""A process killed (SIGKILL) while its slot is being made: nothing stays on the source."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from decoder.scalars import LSN
from replview.acts.slot_making import make_slot
from replview.acts.slot_sweeping import sweep
from replview.catalog.connections import connect
from replview.catalog.plan.new_slot import make_plan
from replview.catalog.plan.plan import Statement
from replview.catalog.plan.slot_request import SlotRequest, request_of
from replview.catalog.problems import SourceProblem
from replview.catalog.server import read_position
from replview.features.onboarding.taking_back import take_back_lost
from replview.jobs import intentions
from replview.store.models import AccessRecord, Slot, SlotIntention, Source, SourceDraft
from tests.support.copied_clusters import ROOT, STORE
from tests.support.people import make_user
from tests.support.source_databases import SourceDatabase
from tests.support.source_traces import left_on
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
MADE = ({"mine"}, {"mine"})
GONE = (set(), set())
Killed = Callable[..., None]


@pytest.fixture
def killed(source: SourceDatabase, store_cluster) -> Iterator[Killed]:
    """``killed(*words)``: that command, killed while the slot it makes waits for a transaction
    that goes on until the test ends.
    """
    source.run("CREATE TABLE orders (id int PRIMARY KEY)")
    environment = {**os.environ, "REPLVIEW_STORE_URL": store_cluster.dsn(STORE)}
    writer = source.connect()
    writer.execute("BEGIN; INSERT INTO orders VALUES (1)")

    def kill(*words: str) -> None:
        making = subprocess.Popen(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(lambda: left_on(source) == MADE, 60, "the slot is being made")
        finally:
            making.kill()
            making.wait()

    yield kill
    writer.close()


def aged(seconds: float = 60.0) -> SlotIntention:
    """The one there is, as if it were as old as that."""
    [one] = SlotIntention.objects.all()
    before = timezone.now() - timedelta(seconds=seconds)
    columns = {"begun_at": before, "tried_at": None}
    if one.seen_at is not None:
        columns["seen_at"] = before
    SlotIntention.objects.filter(pk=one.pk).update(**columns)
    [one] = intentions.due()
    return one


def test_the_worker_of_a_draft(killed: Killed, source: SourceDatabase) -> None:
    answers = {
        "name": "shop",
        "slot_name": "mine",
        "through": "tables",
        "tables": ["public.orders"],
    }
    with connect(source.dsn) as connection:
        plan = make_plan(connection, request_of(answers, temporary=False))
    answers["statements"] = [str(step) for step in plan.statements]
    draft = SourceDraft.objects.create(
        user=make_user("root", "admin"),
        kind="record",
        state="asked",
        answers=answers,
        conninfo=source.dsn,
    )

    killed(
        "shell",
        "--verbosity",
        "0",
        "--command",
        "import time\nfrom replview.features.onboarding.job import KIND\n"
        "KIND.serve(); time.sleep(600)",
    )
    take_back_lost()
    assert left_on(source) == MADE, "its worker may be alive"
    SourceDraft.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    take_back_lost()

    # Even though the transaction that the slot waits for is still open.
    assert left_on(source) == GONE
    draft.refresh_from_db()
    assert (draft.state, draft.problem_code, draft.undo) == ("failed", "lost", [])
    assert not SlotIntention.objects.exists()
    assert not Source.objects.exists()
    record = AccessRecord.objects.get(action="changed_slot")
    assert (record.subject, record.details["act"]) == ("shop/mine", "swept")
    assert record.details["statements"] == [
        "SELECT pg_drop_replication_slot('mine')", 'DROP PUBLICATION "mine"'
    ]  # fmt: skip


@pytest.mark.long
def test_a_command(killed: Killed, source: SourceDatabase) -> None:
    Source.objects.create(name="shop", conninfo=source.dsn)
    killed("slot", "add", "shop", "mine", "--tables", "orders", "--yes")
    assert intentions.due() == [], "it may be alive"
    sweep(aged(), maker_gone=False)
    assert left_on(source) == MADE, "who still makes it may be alive"

    source.run(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE state = 'idle in transaction' AND datname = current_database()"
    )
    wait_for(lambda: reader_of(source) is None, 20, "the slot is made")
    sweep(aged(), maker_gone=False)
    assert left_on(source) == MADE, "seen for the first time"
    sweep(aged(), maker_gone=False)

    assert left_on(source) == GONE
    assert not SlotIntention.objects.exists()


def reader_of(source: SourceDatabase) -> int | None:
    """The process that makes or reads the slot."""
    with source.connect() as connection:
        row = connection.execute(
            "SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'mine'"
        ).fetchone()
    assert row is not None
    return row[0]


def test_what_is_somebody_elses_is_left_alone(source: SourceDatabase) -> None:
    shop = Source.objects.create(name="shop", conninfo=source.dsn)
    create = "SELECT pg_create_logical_replication_slot('mine', 'pgoutput')"
    source.run("CREATE TABLE orders ()", create, "INSERT INTO orders DEFAULT VALUES")
    with connect(source.dsn) as connection:
        now = read_position(connection)

    def sweeps(after: LSN | None) -> bool:
        intention = intentions.begin(shop, "mine", after)
        intentions.add(intention, "slot", "mine", create, "SELECT pg_drop_replication_slot('mine')")
        sweep(intention, maker_gone=True)
        assert not SlotIntention.objects.exists()
        return left_on(source) == GONE

    assert not sweeps(now), "it goes further back than the intention"
    slot = Slot.objects.create(source=shop, name="mine")
    assert not sweeps(None), "the store has it"
    slot.delete()
    assert sweeps(None)


def test_who_was_taken_for_dead_does_not_go_on(source: SourceDatabase) -> None:
    shop = Source.objects.create(name="shop", conninfo=source.dsn)
    source.run("CREATE TABLE orders (id int PRIMARY KEY)")
    with connect(source.dsn) as connection:
        plan = make_plan(connection, SlotRequest(slot_name="mine"))

    def slow(step: Statement, state: str) -> None:
        if step.kind == "slot" and state == "done":
            [intention] = SlotIntention.objects.all()
            sweep(intention, maker_gone=True)

    with pytest.raises(SourceProblem, match="another process of replview has undone it"):
        make_slot(shop, source.dsn, plan, print, stopped=True, options={}, on_step=slow)

    assert left_on(source) == GONE
    assert not Slot.objects.exists()
    assert not SlotIntention.objects.exists()
