"""One estimate of when a slot is lost: held against what a real server went on to write.

``recorded_wal.json`` has the WAL position of PostgreSQL 18 every five seconds of fifty minutes, as
bytes since the first sample: of the demo's shop at two rates, on a machine that did other work
besides, and of bulk imports of random size at random intervals.
"""

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from django.db import connection

from replview.features.overview.page import figures
from replview.health.conditions import (
    GROWTH_WINDOWS,
    Observation,
    growth_of,
    seconds_to_loss,
    time_to_loss,
)
from replview.health.findings_watched import watched_health
from replview.health.fleet import read_fleet
from replview.health.queries import read_paces, read_present
from replview.health.server_slot import server_slot
from replview.health.states import SlotReading
from replview.health.watched import reading_of
from replview.store.models import Slot, SlotSample, Source, SourceLook, WatchedSlot
from replview.store.write.partitions import ensure_partitions

RECORDED = json.loads((Path(__file__).parent / "recorded_wal.json").read_text())
NOW = datetime.now(UTC).replace(microsecond=0)
AHEAD = 600
GB, MB = 1 << 30, 1 << 20


def rates_at(samples: list[list[int]], number: int) -> list[float | None]:
    """Over each window that ends with this sample."""
    at, position = samples[number]
    rates: list[float | None] = []
    for window in GROWTH_WINDOWS:
        since, first = next(s for s in samples if s[0] > at - window.total_seconds())
        rates.append((position - first) / (at - since) if at - since >= 30 else None)
    return rates


def errors_of(samples: list[list[int]]) -> tuple[list[float], list[bool]]:
    """Return the errors of the estimates made ten minutes before a limit is reached.

    Each error is a share of the ten minutes. The second list says whether the actual time lay
    between the estimate's soonest and latest.
    """
    errors, within = [], []
    for number, (at, position) in enumerate(samples):
        after = next((s for s in samples[number:] if s[0] >= at + AHEAD), None)
        if at < AHEAD or after is None:
            continue
        # A limit that the server really reached ten minutes later.
        pace, slowest, fastest = growth_of(rates_at(samples, number)) or (0.0, 0.0, 0.0)
        source = Source(name="shop", max_slot_wal_keep_bytes=after[1])
        reading = SlotReading(retained_wal_bytes=position, growth_bytes_per_second=pace,
                              growth_between=(slowest, fastest))  # fmt: skip
        loss = time_to_loss(source, reading)
        assert loss is not None
        errors.append(abs(loss.seconds - (after[0] - at)) / (after[0] - at))
        within.append(loss.soonest <= after[0] - at <= loss.latest)
    return errors, within


@pytest.mark.parametrize("workload", [name for name in RECORDED if name.startswith("shop")])
def test_ten_minutes_ahead_half_of_the_estimates_are_within_a_fifth(workload: str) -> None:
    errors, _ = errors_of(RECORDED[workload])

    assert len(errors) > 300
    assert median(errors) < 0.2


def test_over_all_recorded_workloads_they_are_too() -> None:
    errors = [error for samples in RECORDED.values() for error in errors_of(samples)[0]]

    assert median(errors) < 0.2


def growing(pace: float, **values: float) -> SlotReading:
    told = {"retained_wal_bytes": 6 * GB, "growth_bytes_per_second": pace} | values
    return SlotReading(sampled_at=NOW, **told)  # type: ignore[arg-type]


SHOP = Source(name="shop", server_version=180004, max_slot_wal_keep_bytes=10 * GB)


def test_what_stopped_growing_or_falls_is_not_lost() -> None:
    stopped, falling = growth_of([0.0, 4e6, 5e6]), growth_of([-3e6, 4e6, 5e6])

    for found in (stopped, falling):
        assert found is not None
        loss = time_to_loss(SHOP, growing(found[0]))
        assert loss is not None
        assert loss.seconds == math.inf
    burst = growth_of([9e6, 1e6, 1e6])
    assert burst is not None
    assert burst[0] == 1e6


@pytest.mark.parametrize("pace", [0.0, 900.0, 5000.0])
def test_beside_steady_and_beyond_a_week_no_loss_is_told(pace: float) -> None:
    assert watched_health(server_slot(watched()), growing(pace), NOW).loss_seconds is None


def watched(**values: object) -> WatchedSlot:
    facts = {"active": False, "retained_wal_bytes": 6 * GB, "wal_status": "extended"}
    known = {"source": SHOP, "name": "s", "last_seen_at": NOW, "facts": facts}
    return WatchedSlot(**(known | values))


@pytest.mark.django_db
def test_pages_and_alerts_have_the_same_estimate_and_slots_of_a_server_the_same_pace() -> None:
    now = datetime.now(UTC)
    connection.ensure_connection()
    ensure_partitions(connection.connection, (now - timedelta(days=1)).date(), now.date())
    shop = Source.objects.create(name="shop", max_slot_wal_keep_bytes=10 * GB)
    samples = RECORDED["shop, 60 transactions a second"][:150]
    rows = []
    for number, held in ((1, 6 * GB), (2, 7 * GB)):
        facts = {"active": False, "retained_wal_bytes": held, "wal_status": "extended"}
        slot = Slot.objects.create(source=shop, name=f"s{number}")
        rows.append(WatchedSlot.objects.create(
            id=slot.pk, slot=slot, source=shop, name=slot.name, last_seen_at=now,
            first_seen_at=now, facts=facts))  # fmt: skip
        SlotSample.objects.bulk_create(
            SlotSample(
                slot_id=slot.pk,
                sampled_at=now - timedelta(seconds=samples[-1][0] - at + 1),
                current_lsn=position,
                retained_wal_bytes=held - samples[-1][1] + position,
            )
            for at, position in samples
        )

    one, two = (read_paces(now)[row.pk] for row in rows)
    expected = growth_of(rates_at(samples, len(samples) - 1))
    assert one.growth == two.growth == pytest.approx(expected and expected[0], rel=0.05)
    for row, pace in zip(rows, (one, two), strict=True):
        on_page = reading_of(server_slot(row), pace, now)
        assert pace.growth is not None
        assert pace.between is not None
        seen = Observation(at=now, facts=row.facts, growth=(pace.growth, *pace.between))
        page = watched_health(server_slot(row), on_page, now)
        assert page.loss_seconds == seconds_to_loss(row, seen)
        assert page.loss_seconds is not None


def test_the_budget_of_our_own_slot_counts_for_alerts_too() -> None:
    ours = Slot(source=SHOP, name="s", wal_budget_bytes=7 * GB)
    seen = Observation(at=NOW, facts={"retained_wal_bytes": 6 * GB}, growth=(MB, MB, MB))

    assert seconds_to_loss(watched(slot=ours), seen) == 1024


def test_the_api_tells_state_cause_remedy_and_time_to_loss(signed_in: Any, scene: Any) -> None:
    told = signed_in.get("/api/v1/slots/billing-eu/replview_billing/health").json()
    page = signed_in.get("/slots/billing-eu/replview_billing/").content.decode()

    assert told["state"] == "now"
    assert f"<b>{told['title']}</b>" in page
    assert f"Next: {told['remedy']}" in page
    assert (told["limit_by"], told["limit_bytes"]) == ("server", 64 * GB)
    # 32.2 of 64 GB, at the pace of the samples.
    pace = read_present()[1][scene.slots["billing-eu/replview_billing"].pk].growth
    left = 64 * GB - told["retained_bytes"]
    assert told["time_to_loss"]["seconds"] == pytest.approx(left / (pace or 1), rel=0.01)
    assert told["time_to_loss"]["soonest"] <= told["time_to_loss"]["seconds"]
    assert signed_in.get("/api/v1/slots/billing-eu/none/health").status_code == 404


def test_wal_of_one_server_counts_once(scene: Any) -> None:
    """The WAL of a server with two sources counts once; a standby, started later, counts apart."""

    def retained() -> str:
        (figure,) = (each for each in figures(read_fleet()) if each.label == "Retained WAL")
        assert figure.number is not None
        return figure.number

    names = ("billing-eu", "crm")
    alone = retained()
    Source.objects.filter(name__in=names).update(system_identifier="7")
    for name in names:
        SourceLook.objects.update_or_create(
            source=scene.sources[name],
            defaults={"looked_at": scene.now, "holders": {"started_at": "2026-11-20"}},
        )
    assert retained() != alone
    SourceLook.objects.filter(source=scene.sources["crm"]).update(holders={"started_at": "later"})
    assert retained() == alone
