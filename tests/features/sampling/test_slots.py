"""Every slot of a source is watched: replview's or not, lost, gone, or become replview's."""

import datetime as dt

import pytest

from replview.catalog.slots import SlotStates
from replview.features.sampling.rows import sample_columns, slot_facts
from replview.store.dsn import set_dsn
from replview.store.models import (
    AlertRule,
    Slot,
    SlotSample,
    Source,
    SourceSample,
    Transaction,
    WatchedSlot,
    WatchedSubscription,
)
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert
from tests.support.sampling import sample_source

pytestmark = pytest.mark.django_db


@pytest.fixture
def known(any_source) -> Source:
    make_partitions()
    made = Source(name="known")
    set_dsn(made, any_source.dsn)
    made.save()
    return made


def watched(source: Source, name: str) -> WatchedSlot:
    return WatchedSlot.objects.get(source=source, name=name)


def drop(any_source, name: str) -> None:
    any_source.run(f"SELECT pg_drop_replication_slot('{name}')")


def test_slots_of_others_are_sampled_with_their_facts(known, any_source) -> None:
    any_source.run(
        "SELECT pg_create_physical_replication_slot('standby_1', true)",
        "SELECT pg_create_logical_replication_slot('billing', 'pgoutput')",
    )
    try:
        sample_source(known)
        standby, billing = watched(known, "standby_1"), watched(known, "billing")
        assert (standby.slot_type, standby.slot, standby.database) == ("physical", None, None)
        assert (billing.plugin, billing.database) == ("pgoutput", any_source.name)
        assert billing.inactive_since is not None
        version = any_source.version
        facts = billing.facts
        assert facts["retained_wal_bytes"] >= facts["unconfirmed_wal_bytes"] >= 0
        counted = {name for name, value in facts.items() if value == 0} & {
            "spill_txns",
            "total_bytes",
        }
        assert len(counted) == (2 if version >= 14 else 0)
        assert ("failover" in facts, "conflicting" in facts) == (version >= 17, version >= 16)
        [sample] = SlotSample.objects.filter(slot_id=billing.pk)
        assert sample.retained_wal_bytes == facts["retained_wal_bytes"]
        assert sample.changes_stored is None
        assert {row.name for row in WatchedSlot.objects.filter(source=known)} >= {
            "standby_1",
            "billing",
        }
    finally:
        drop(any_source, "standby_1")


def test_a_slot_that_is_gone_says_so_until_it_is_back(known, any_source) -> None:
    create = "SELECT pg_create_logical_replication_slot('billing', 'pgoutput')"
    any_source.run(create)
    sample_source(known)
    drop(any_source, "billing")
    sample_source(known)
    row = watched(known, "billing")
    assert row.gone_at is not None
    assert SlotSample.objects.filter(slot_id=row.pk).count() == 1

    any_source.run(create)
    sample_source(known)
    assert watched(known, "billing").gone_at is None
    assert watched(known, "billing").pk == row.pk


def test_an_adopted_slot_takes_its_samples_along(known, any_source) -> None:
    any_source.run("SELECT pg_create_logical_replication_slot('billing', 'pgoutput')")
    sample_source(known)
    former = watched(known, "billing")
    rule = AlertRule.objects.create(kind="lag", name="of this one", slot=former)
    slot = Slot.objects.create(source=known, name="billing")
    sample_source(known)

    row = watched(known, "billing")
    assert row.pk == row.slot_id == slot.pk != former.pk
    assert SlotSample.objects.filter(slot_id=slot.pk).count() == 2
    assert not SlotSample.objects.filter(slot_id=former.pk).exists()
    rule.refresh_from_db()
    assert rule.slot_id == slot.pk


def test_a_slot_that_is_being_removed_is_left_alone(known) -> None:
    Slot.objects.create(source=known, name="leaving", desired=Slot.Desired.REMOVING)
    sample_source(known)
    assert not WatchedSlot.objects.filter(name="leaving").exists()


@pytest.mark.parametrize(
    "bad", [{"wal_status": "lost"}, {"wal_status": "reserved", "invalidation_reason": "idle"}]
)
def test_what_a_lost_slot_retains_is_unknown_and_not_zero(bad) -> None:
    slot = {
        "slot_name": "s", "active_pid": None, "restart_lsn": None,
        "confirmed_flush_lsn": "0/10", "retained_wal_bytes": 0, "unconfirmed_wal_bytes": 7, **bad,
    }  # fmt: skip
    states = SlotStates(current_lsn=None, in_recovery=False, slots={"s": slot})
    facts = slot_facts(states, "s")
    columns = sample_columns(facts, states)
    for told in (facts, columns):
        assert told["retained_wal_bytes"] is told["unconfirmed_wal_bytes"] is None
        assert told["wal_status"] == bad["wal_status"]


def test_the_source_itself_is_sampled(known, any_source) -> None:
    with any_source.connect() as session:
        session.execute("BEGIN; SELECT txid_current()")
        sample_source(known)
    [sample] = SourceSample.objects.filter(source_id=known.pk)
    assert sample.reachable
    assert sample.wal_directory_bytes >= 16 << 20
    assert sample.running >= 1
    assert sample.oldest_running_seconds >= 0
    assert sample.prepared == 0
    assert sample.oldest_prepared_seconds is None


def test_a_role_without_rights_is_told_less_without_an_error(known, any_source) -> None:
    any_source.run("DROP ROLE IF EXISTS plain", "CREATE ROLE plain LOGIN PASSWORD 'x'")
    set_dsn(known, any_source.dsn.replace(any_source.dsn.split("@")[0], "postgresql://plain:x"))
    known.save()
    try:
        assert sample_source(known) is None
    finally:
        any_source.run("DROP ROLE plain")
    [sample] = SourceSample.objects.filter(source_id=known.pk)
    assert sample.wal_directory_bytes is None
    assert sample.current_lsn is not None


def test_subscriptions_are_watched(known, any_source) -> None:
    any_source.run(
        "CREATE SUBSCRIPTION here CONNECTION 'dbname=x password=geheim' PUBLICATION p "
        "WITH (connect = false, slot_name = NONE)"
    )
    try:
        sample_source(known)
        row = WatchedSubscription.objects.get(source=known, name="here")
        assert row.facts["subenabled"] is False
        assert row.facts.get("apply_error_count") == (0 if any_source.version >= 15 else None)
        assert row.facts["subpublications"] == ["p"]
        assert "geheim" not in str(row.facts)
    finally:
        any_source.run("DROP SUBSCRIPTION here")
    sample_source(known)
    row.refresh_from_db()
    assert row.gone_at is not None


def test_how_long_commits_took_to_be_stored_since_the_last_look(known) -> None:
    made = History()
    slot = made.slot
    slot.source = known
    slot.save()
    now = dt.datetime.now(dt.UTC)
    sample_source(known)
    for seconds in (1, 2, 3):
        stored = dt.datetime.now(dt.UTC) + dt.timedelta(milliseconds=1)
        made.commit(insert(1), commit_time=stored - dt.timedelta(seconds=seconds), stored_at=stored)
    Transaction.objects.filter(commit_seq=1).update(stored_at=now - dt.timedelta(hours=1))
    receiver = {"batch_changes": 9, "memory_bytes": 1 << 20}
    Slot.objects.update(
        last_stored_at=stored, heartbeat_at=dt.datetime.now(dt.UTC), receiver_facts=receiver
    )
    sample_source(known)
    first, second = SlotSample.objects.filter(slot_id=slot.pk).order_by("sampled_at")
    assert first.stored_after_p50_seconds is first.batch_changes is None
    assert second.stored_after_p50_seconds == pytest.approx(2.5)
    assert (second.batch_changes, second.memory_bytes) == (9, 1 << 20)
