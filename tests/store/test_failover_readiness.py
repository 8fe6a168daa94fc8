"""Each slot of a primary is known to survive a failover or not, with the reasons."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from replview.store.failover_readiness import read_standbys
from replview.store.models import Source, SourceLook, WatchedSlot

READY = {"synced": True, "temporary": False, "invalidation_reason": None, "failover": True}


def make_source(name: str, *, in_recovery: bool, **values: Any) -> Source:
    known = {"system_identifier": "7500", "server_version": 180004, "conninfo": "host=x"}
    return Source.objects.create(name=name, in_recovery=in_recovery, **(known | values))


def copy_on(standby: Source, **facts: Any) -> WatchedSlot:
    return WatchedSlot.objects.create(
        id=900 + WatchedSlot.objects.count(), source=standby, name="cdc", temporary=False,
        facts=READY | facts,
    )  # fmt: skip


@pytest.fixture
def primary(db) -> Source:
    return make_source("shop", in_recovery=False)


@pytest.fixture
def standby(db) -> Source:
    return make_source("shop-replica", in_recovery=True)


def test_a_synced_permanent_valid_copy_is_ready(primary: Source, standby: Source) -> None:
    copy_on(standby)
    (one,) = read_standbys(primary).of("cdc")

    assert (one.standby, one.ready, one.why) == ("shop-replica", True, "")


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"synced": False}, "not_synced"),
        ({"temporary": True}, "temporary"),
        ({"invalidation_reason": "rows_removed"}, "invalidated"),
    ],
)
def test_what_keeps_a_copy_from_being_ready(
    primary: Source, standby: Source, facts: dict[str, Any], why: str
) -> None:
    copy = copy_on(standby, **facts)
    WatchedSlot.objects.filter(pk=copy.pk).update(temporary=facts.get("temporary", False))
    (one,) = read_standbys(primary).of("cdc")

    assert (one.ready, one.why) == (False, why)


def test_a_missing_copy_names_the_settings_that_are_lacking(
    primary: Source, standby: Source
) -> None:
    SourceLook.objects.create(
        source=standby, looked_at=timezone.now(),
        holders={"failover_settings": {
            "sync_replication_slots": "off", "hot_standby_feedback": "on",
            "primary_slot_name": "", "primary_conninfo_names_database": None}},
    )  # fmt: skip
    (one,) = read_standbys(primary).of("cdc")

    assert one.why == "missing"
    assert one.lacking == ("sync_replication_slots", "primary_slot_name")


def test_a_standby_that_cannot_tell_is_unknown(primary: Source) -> None:
    old = make_source("old", in_recovery=True, server_version=160004)
    silent = make_source("silent", in_recovery=True, problem_code="unreachable")
    for one in read_standbys(primary).of("cdc"):
        assert one.standby in (old.name, silent.name)
        assert one.ready is None


def test_a_copy_that_is_gone_or_of_another_cluster_counts_for_nothing(
    primary: Source, standby: Source
) -> None:
    copy = copy_on(standby)
    WatchedSlot.objects.filter(pk=copy.pk).update(gone_at=timezone.now() - timedelta(seconds=9))
    make_source("elsewhere", in_recovery=True, system_identifier="99")

    assert [one.why for one in read_standbys(primary).of("cdc")] == ["missing"]


@pytest.mark.parametrize(("value", "expected"), [("", True), ("standby_1", False), (None, None)])
def test_whether_readers_wait_for_a_standby(
    primary: Source, value: str | None, expected: bool | None
) -> None:
    settings = {} if value is None else {"synchronized_standby_slots": value}
    SourceLook.objects.create(
        source=primary, looked_at=timezone.now(), holders={"failover_settings": settings}
    )

    assert read_standbys(primary).waits_for_none is expected
