"""Every page gives the same cause and the same remedy for a slot that holds WAL."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.test import Client

from replview.features.lag.figures import drawn
from replview.health.conditions import limit_of
from replview.health.findings_received import slot_health
from replview.health.holding import Cause, cause_of
from replview.health.server_slot import ServerSlot
from replview.health.slot_steps import steps_of
from replview.health.source_state import SourceState
from replview.health.states import SlotReading
from replview.store.dsn import set_dsn
from replview.store.models import Slot, Source, SourceLook
from replview.store.retention.tidy import make_partitions
from replview.ui.charts.figure import SlotValues
from tests.support.people import said
from tests.support.sampling import sample_source
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

NOW = datetime(2026, 11, 20, 7, 57, 12, tzinfo=UTC)
MB = 1 << 20


def sample(slot: Slot, source: SourceDatabase) -> None:
    slot.source.refresh_from_db()
    set_dsn(slot.source, source.dsn)
    slot.source.save()
    make_partitions()
    assert sample_source(slot.source) is None


def write_wal(source: SourceDatabase, slot: Slot, megabytes: int) -> None:
    """Write so much, and wait until the slot's reader has confirmed it."""
    with source.connect() as session:
        for _ in range(megabytes // 16):
            session.execute("CREATE TABLE IF NOT EXISTS noise (n int)")
            session.execute("INSERT INTO noise VALUES (1)")
            session.execute("SELECT pg_switch_wal()")
        session.execute("CHECKPOINT")

        def confirmed() -> bool:
            row = session.execute(
                "SELECT pg_current_wal_lsn() - confirmed_flush_lsn < 4000000 "
                "FROM pg_replication_slots WHERE slot_name = %s",
                [slot.name],
            ).fetchone()
            return row is not None and row[0]

        wait_for(confirmed)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_every_page_names_the_transaction_that_holds_a_slot_that_is_read(
    source: SourceDatabase, record: Any, signed_in: Client
) -> None:
    source.run("CREATE TABLE t (n int PRIMARY KEY)")
    slot = record(source).slot
    page, name = f"/slots/{slot.source.name}/{slot.name}/", f"{slot.source.name}/{slot.name}"
    ended = suppress(psycopg.OperationalError)
    with ended, source.connect(application_name="night batch") as session:
        session.execute("BEGIN")
        session.execute("INSERT INTO t VALUES (1)")
        pid = session.info.backend_pid
        write_wal(source, slot, 0)
        sample(slot, source)
        # Small as it is, it is this transaction that holds it.
        assert f"Held back by the transaction of pid {pid}" in said(signed_in, page)

        Slot.objects.filter(pk=slot.pk).update(wal_budget_bytes=100 * MB)
        write_wal(source, slot, 80)
        sample(slot, source)
        found = {address: said(signed_in, address) for address in (
            page, "/", "/slots/", "/in-flight/", f"/lag/?slot={name}")}  # fmt: skip
        step = re.search(r"SELECT pg_terminate_backend\(pid\) FROM pg_stat_activity WHERE pid = "
                         r"\d+ AND backend_xid = '\d+'::xid", found[page])  # fmt: skip
        assert step is not None
        assert f"pid = {pid} " in step[0]
        assert f"Held back by the transaction of pid {pid}" in found[page]
        assert f"The transaction of pid {pid} pins restart_lsn" in found["/in-flight/"]
        for address in (page, "/", "/slots/", f"/lag/?slot={name}"):
            assert f"end the transaction that holds it: {step[0]}" in found[address], address
            assert "let it be read" not in found[address], address
            assert "raise its budget" not in found[address], address

        with source.connect() as other:
            assert other.execute(step[0]).fetchall() == [(True,)]
            wait_for(lambda: not other.execute(step[0]).fetchall())
    write_wal(source, slot, 16)
    sample(slot, source)
    assert "Held back by nothing" in said(signed_in, page)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_so_they_do_with_a_prepared_one(
    source: SourceDatabase, record: Any, signed_in: Client
) -> None:
    source.run("CREATE TABLE t (n int PRIMARY KEY)")
    slot = record(source).slot
    with source.connect() as session:
        session.execute("BEGIN")
        session.execute("INSERT INTO t VALUES (2)")
        session.execute("PREPARE TRANSACTION 'order''s'")
    try:
        write_wal(source, slot, 0)
        sample(slot, source)
        page = said(signed_in, f"/slots/{slot.source.name}/{slot.name}/")
        assert "Held back by the prepared transaction order's" in page
        assert "The prepared transaction order's pins restart_lsn" in said(signed_in, "/in-flight/")
        address = f"/api/v1/slots/{slot.source.name}/{slot.name}/health"
        assert signed_in.get(address).json()["held_by"] == "the prepared transaction order's"
    finally:
        source.run("ROLLBACK PREPARED 'order''s'")


def facts(**values: Any) -> ServerSlot:
    """A slot of a server with a limit of 64 GB, as sampled."""
    shop = Source(name="shop", server_version=180004, max_slot_wal_keep_bytes=64 << 30)
    told = {"active": True, "restart_lsn": "1/0", "unconfirmed_wal_bytes": 0} | values
    return ServerSlot(source=shop, name="replview", seen_at=NOW, facts=told)


def look(**values: Any) -> SourceState:
    return SourceState(SourceLook(looked_at=NOW, **values), NOW)


def held(server: ServerSlot) -> Cause:
    """Return the cause found while a session has been at work for an hour."""
    began = (NOW - timedelta(hours=1)).isoformat()
    running = [{"pid": 4711, "xid": 900, "xact_started_at": began, "backend_xmin_age": 100}]
    return cause_of(server, look(running=running, prepared=[], holders={"next_xid": 1000}), NOW)


def ours(**values: Any) -> Slot:
    shop = Source(name="shop", max_slot_wal_keep_bytes=values.pop("limit", 64 << 30))
    known = {"name": "replview", "state": "streaming", "heartbeat_at": NOW, "state_since": NOW,
             "last_stored_at": NOW}  # fmt: skip
    return Slot(source=shop, **(known | values))


def test_a_slot_near_our_budget_is_not_told_to_raise_the_servers_limit() -> None:
    slot = ours(wal_budget_bytes=1 << 30)
    server = facts(active=False, retained_wal_bytes=900 * MB, unconfirmed_wal_bytes=900 * MB)
    reading = SlotReading(sampled_at=NOW, retained_wal_bytes=900 * MB, wal_status="extended")
    cause = cause_of(server, look(running=[], prepared=[]), NOW, slot)
    steps = " ".join(step.run for step in steps_of(server, slot, reading, cause, NOW))

    assert "max_slot_wal_keep_size" not in steps
    assert "replview slot set shop replview --wal-budget 2GB" in steps
    assert slot_health(slot, reading, None, NOW, cause).next_step == (
        "let it be read, or raise its budget."
    )


def test_unreserved_is_past_the_servers_limit_whatever_budget_the_slot_has() -> None:
    slot = ours(wal_budget_bytes=1 << 30)
    reading = SlotReading(sampled_at=NOW, retained_wal_bytes=200 * MB, safe_wal_bytes=-50 * MB,
                          wal_status="unreserved", growth_bytes_per_second=1e6)  # fmt: skip
    health = slot_health(slot, reading, None, NOW)

    assert limit_of(slot.source, slot, reading).by == "server"
    assert health.title == "replview is lost at the source's next checkpoint."
    assert "budget" not in health.cause + health.next_step
    assert "max_slot_wal_keep_size" in health.next_step


def test_steps_and_health_give_the_same_statement() -> None:
    server = facts(retained_wal_bytes=40 << 30, catalog_xmin_age=100)
    reading = SlotReading(sampled_at=NOW, retained_wal_bytes=40 << 30, unconfirmed_wal_bytes=0)
    cause, slot = held(server), ours()

    [step, *_] = steps_of(server, slot, reading, cause, NOW)
    assert step.run == (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity\n"
        "WHERE pid = 4711 AND backend_xid = '900'::xid;"
    )
    one_line = step.run.replace("\n", " ").removesuffix(";")
    assert slot_health(slot, reading, None, NOW, cause).next_step.endswith(one_line)


@pytest.mark.parametrize(
    ("values", "state", "words"),
    [
        ({"retained_wal_bytes": 40 * MB, "active": False}, look(), "the missing consumer"),
        ({"retained_wal_bytes": 40 * MB, "unconfirmed_wal_bytes": 38 * MB}, look(),
         "its consumer, with 38\xa0MB to go"),
        ({"retained_wal_bytes": 1 * MB}, look(running=[], prepared=[]), "nothing"),
        ({"retained_wal_bytes": 1 * MB}, SourceState(None, NOW), "not checked yet"),
        ({"wal_status": "lost"}, look(), "nothing: it is lost"),
    ],
)  # fmt: skip
def test_what_holds_it(values: dict[str, Any], state: SourceState, words: str) -> None:
    assert cause_of(facts(**values), state, NOW).words == words


def test_a_slot_that_replview_polls_is_read_between_its_polls() -> None:
    polled, server = ours(interface="sql"), facts(active=False, retained_wal_bytes=1 * MB)
    idle = look(running=[], prepared=[])

    assert cause_of(server, idle, NOW, polled).words == "nothing"
    assert cause_of(server, idle, NOW, ours()).words == "the missing consumer"


def test_the_chart_of_a_slot_that_stopped_does_not_say_that_it_is_read() -> None:
    values = {"active": [True, True, False]}
    lags = dict.fromkeys(("write_lag_seconds", "flush_lag_seconds", "replay_lag_seconds"),
                         [None] * 3)  # fmt: skip
    stopped = SlotValues(name="s", times=[1, 2, 3], values={**values, **lags})

    assert "The slot is read" not in drawn("lag", [stopped]).note
