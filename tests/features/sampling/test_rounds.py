"""Rounds of looks: what is due, connections kept between looks, and sources that hang."""

import datetime as dt
import time
from concurrent.futures import wait
from itertools import pairwise

import pytest

from replview.catalog.connection_cache import KeptConnections
from replview.features.sampling import sampling_pool as rounds_module
from replview.features.sampling.sampling_pool import Rounds, Steady, is_due
from replview.store import instance_settings
from replview.store.dsn import set_dsn
from replview.store.models import SlotSample, Source, SourceSample
from replview.store.retention.tidy import make_partitions
from tests.support.proxy import Proxy
from tests.support.sampling import sample_source

pytestmark = pytest.mark.django_db(transaction=True)


def known(name: str, dsn: str, **facts) -> Source:
    make_partitions()
    made = Source(name=name, **facts)
    set_dsn(made, dsn)
    made.save()
    return made


@pytest.fixture
def told() -> list[int]:
    return []


@pytest.fixture
def rounds(told):
    made = Rounds(told.append)
    yield made
    made.close()


def round_of(rounds: Rounds, every_seconds: float = 5.0, timeout: float = 3.0) -> int:
    """Run a round, assert that each look ended in time, and return the number of looks."""
    begun = rounds.begin(list(Source.objects.all()), every_seconds)
    assert not wait(begun, timeout=timeout).not_done
    return len(begun)


def pids(source) -> set[int]:
    with source.connect() as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'replview' "
            "AND datname = %s", [source.name]
        )  # fmt: skip
        return {row[0] for row in rows}


def test_a_source_is_looked_at_when_it_is_due_and_its_pages_are_woken(source, rounds, told) -> None:
    row = known("shop", source.dsn)
    assert round_of(rounds) == 1
    assert round_of(rounds, every_seconds=1e6) == 0
    assert round_of(rounds, every_seconds=0.0) == 1
    assert told == [row.pk, row.pk]
    assert SourceSample.objects.filter(source_id=row.pk, reachable=True).count() == 2


def test_the_connection_is_kept_and_opened_anew_after_it_was_ended(source, rounds) -> None:
    row = known("shop", source.dsn)
    round_of(rounds)
    [first] = pids(source)
    round_of(rounds, 0.0)
    assert pids(source) == {first}
    with source.connect() as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", [first])
    round_of(rounds, 0.0)
    row.refresh_from_db()
    assert row.problem_code == ""
    assert len(pids(source) - {first}) == 1


def test_the_connection_of_a_removed_source_is_closed(source, rounds) -> None:
    known("shop", source.dsn)
    round_of(rounds)
    Source.objects.all().delete()
    round_of(rounds)
    deadline = time.monotonic() + 5
    while pids(source) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not pids(source)


def test_an_edited_source_is_asked_at_its_new_address(source, source_cluster_16) -> None:
    row, kept = known("shop", source.dsn), KeptConnections()
    sample_source(row, kept)
    set_dsn(row, source_cluster_16.dsn())
    row.save()
    sample_source(row, kept)
    kept.close()
    row.refresh_from_db()
    assert row.server_version // 10000 == 16


@pytest.mark.slow
def test_sources_that_hang_delay_no_other(source, rounds, monkeypatch) -> None:
    monkeypatch.setattr("replview.features.sampling.sample.DEADLINE_SECONDS", 1.5)
    source.run("SELECT pg_create_logical_replication_slot('here', 'pgoutput')")
    with Proxy(source.server.port) as proxy:
        frozen = proxy.dsn(source.dsn)
        for number in range(rounds_module._THREADS + 8):
            known(f"frozen {number}", frozen, problem_code="unreachable" if number > 3 else "")
        good = known("good", source.dsn)
        proxy.to_client.hold()
        for count in (1, 2):
            began = time.monotonic()
            done = rounds.begin(list(Source.objects.all()), 0.0)
            while SourceSample.objects.filter(source_id=good.pk, reachable=True).count() < count:
                # Opening a connection to one that hangs takes five seconds.
                assert time.monotonic() - began < 3.0
                time.sleep(0.01)
            while good.pk in rounds._busy:
                time.sleep(0.01)
        proxy.to_client.release()
        wait(done, timeout=20)
        while rounds._busy:
            time.sleep(0.05)
    assert SlotSample.objects.exists()


@pytest.mark.slow
def test_it_goes_on_by_itself_as_often_as_chosen(source, rounds) -> None:
    row = known("shop", source.dsn)
    instance_settings.write("sampling.seconds", 1, "me")
    steady = Steady(rounds)
    steady.go_on(3.5)
    deadline = time.monotonic() + 15
    while steady._running and time.monotonic() < deadline:
        time.sleep(0.05)
    while rounds._busy:
        time.sleep(0.05)
    # Unchosen, every five seconds, it would be once.
    assert 2 <= SourceSample.objects.filter(source_id=row.pk).count() <= 5


def test_looks_do_not_drift_and_sources_take_turns() -> None:
    began = dt.datetime(2026, 11, 22, tzinfo=dt.UTC)
    looks: dict[int, list[float]] = {pk: [] for pk in range(1, 11)}
    sources = [Source(pk=pk, checked_at=began) for pk in looks]
    for tick in range(120):
        for source in sources:
            now = began + dt.timedelta(seconds=tick + 0.013 * (tick % 7))
            if is_due(source, 5.0, now):
                looks[source.pk].append(tick)
                source.checked_at = now + dt.timedelta(seconds=0.2)
    for times in looks.values():
        assert {later - former for former, later in pairwise(times)} <= {4, 5, 6}
        assert len(times) in (23, 24)
    assert len({times[5] % 5 for times in looks.values()}) == 5
