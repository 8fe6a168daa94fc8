"""Samples of real slots on every version, and sources that do not answer."""

import datetime as dt
import os
import signal
import time

import pytest

from replview.features.sampling.tasks import sample_slots
from replview.store.dsn import set_dsn
from replview.store.models import Slot, SlotSample, Source, SourceSample
from replview.store.retention.tidy import make_partitions
from tests.support.sampling import sample_source

pytestmark = pytest.mark.django_db


@pytest.fixture
def known(any_source):
    """A source with one slot that is on its server, and one that is not."""
    make_partitions()
    any_source.run("SELECT pg_create_logical_replication_slot('here', 'pgoutput')")
    source = Source(name="known")
    set_dsn(source, any_source.dsn)
    source.save()
    for name in ("here", "gone"):
        Slot.objects.create(source=source, name=name, changes_stored=7)
    return source


def test_a_row_for_each_slot_with_what_the_server_told(known, any_source) -> None:
    assert sample_source(known) is None

    here, gone = (SlotSample.objects.get(slot_id=slot.pk) for slot in
                  Slot.objects.order_by("-name"))  # fmt: skip
    assert here.current_lsn >= here.confirmed_flush_lsn >= here.restart_lsn
    assert here.retained_wal_bytes == here.current_lsn - here.restart_lsn
    wal_status, keep_bytes = ("reserved", -1) if any_source.version >= 13 else (None, None)
    assert (here.wal_status, here.active, here.changes_stored) == (wal_status, False, 7)
    assert here.detail["plugin"] == "pgoutput"
    assert ("failover" in here.detail) == (any_source.server.version >= 17)
    assert gone.detail == {"missing": True}
    assert gone.retained_wal_bytes is None
    known.refresh_from_db()
    assert known.server_version // 10000 == any_source.server.version
    assert known.system_identifier
    assert known.max_slot_wal_keep_bytes == keep_bytes


def test_a_plain_role_is_told_when_the_last_checkpoint_began(known, any_source) -> None:
    any_source.run(
        "DROP ROLE IF EXISTS plain", "CREATE ROLE plain LOGIN PASSWORD 'plain'", "CHECKPOINT"
    )
    set_dsn(known, any_source.server.dsn(any_source.name, "plain", "plain"))
    known.save()
    try:
        assert sample_source(known) is None
        told = SourceSample.objects.get(source_id=known.pk).checkpointed_at
        assert told is not None
        assert abs((told - dt.datetime.now(dt.UTC)).total_seconds()) < 60

        revoke = "REVOKE EXECUTE ON FUNCTION pg_control_checkpoint() FROM public"
        any_source.run(revoke)
        assert sample_source(known) is None
        assert SourceSample.objects.order_by("-sampled_at")[0].checkpointed_at is None
    finally:
        any_source.run("GRANT EXECUTE ON FUNCTION pg_control_checkpoint() TO public",
                       "DROP ROLE plain")  # fmt: skip


def test_a_source_out_of_reach_says_so_and_recovers(source, caplog) -> None:
    make_partitions()
    known = Source(name="known")
    set_dsn(known, "host=127.0.0.1 port=1 user=u password=geheim dbname=x")
    known.save()

    sample_source(known)

    known.refresh_from_db()
    assert known.problem_code == "unreachable"
    assert "no server answers" in caplog.text
    assert "geheim" not in known.problem_cause + known.problem_remedy + caplog.text
    set_dsn(known, source.dsn)
    known.save()
    assert sample_source(known) is None
    known.refresh_from_db()
    assert known.problem_code == ""


def test_a_changed_secret_key_is_named(source, settings) -> None:
    known = Source(name="known")
    set_dsn(known, source.dsn)
    known.save()
    settings.SECRET_KEY = "another"

    trouble = sample_source(known)

    assert "another REPLVIEW_SECRET_KEY" in trouble.cause


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_frozen_source_does_not_delay_another(source, source_cluster_16) -> None:
    if source.server is source_cluster_16:
        pytest.skip("this is the frozen one")
    make_partitions()
    source_cluster_16.create_database("frozen")
    for name, dsn in (("frozen", source_cluster_16.dsn("frozen")), ("live", source.dsn)):
        known = Source(name=name)
        set_dsn(known, dsn)
        known.save()
    pid = int((source_cluster_16.data_dir.resolve() / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGSTOP)
    try:
        sample_slots()
        until = time.monotonic() + 60
        while Source.objects.filter(checked_at=None).exists() and time.monotonic() < until:
            time.sleep(0.1)
    finally:
        os.kill(pid, signal.SIGCONT)
    frozen, live = Source.objects.order_by("name")
    assert (frozen.problem_code, live.problem_code) == ("unreachable", "")
    assert live.checked_at is not None
    assert frozen.checked_at is not None
    assert live.checked_at < frozen.checked_at
