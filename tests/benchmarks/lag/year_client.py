"""Fills a store with a year of samples and asks for the lag page and its data.

Usage: ``python -m tests.benchmarks.lag.year_client SLOTS REQUESTS``; prints as JSON, by what was
asked for, the milliseconds of each answer, its size, and the points of its longest series.
"""

import base64
import datetime as dt
import json
import sys
import time
from typing import Any
from urllib.parse import urlencode

import django

#: The number of tables of each of replview's slots.
_TABLES = 4
#: Bytes of one number of plotly's packed arrays, by the name of their type.
_WIDTHS = {"f8": 8, "f4": 4, "i4": 4, "u4": 4, "i2": 2, "u2": 2, "i1": 1, "u1": 1}


def make_slots(count: int) -> list[int]:
    """One source with so many slots, every other one replview's."""
    from replview.store import models

    now = dt.datetime.now(dt.UTC)
    source = models.Source.objects.create(
        name="bench", conninfo="", checked_at=now, server_version=180004
    )
    found = []
    for number in range(count):
        name = f"slot_{number:02}"
        slot = None
        if number % 2 == 0:
            slot = models.Slot.objects.create(
                source=source, name=name, state="streaming", heartbeat_at=now
            )
        pk = slot.pk if slot else 1_000_000 + number
        models.WatchedSlot.objects.create(
            id=pk, source=source, name=name, slot=slot, last_seen_at=now,
            first_seen_at=now - dt.timedelta(days=366), plugin="pgoutput",
            facts={"slot_name": name, "active": True, "wal_status": "reserved"},
        )  # fmt: skip
        found.append(pk)
        if slot:
            _record(slot, now)
    return found


def _record(slot: Any, now: dt.datetime) -> None:
    """A record with some tables, and a year of what stands on the time axis."""
    from replview.store import models

    slot.incarnation = models.SlotIncarnation.objects.create(
        slot=slot, number=1, system_identifier="1", timeline=1, reason="created"
    )
    slot.save()
    for oid in range(_TABLES):
        models.Relation.objects.create(
            slot=slot, system_identifier="1", oid=oid, schema="public", table=f"table_{oid}"
        )
    kinds = ("connected", "disconnected", "schema", "alert", "alert_cleared")
    models.SlotEvent.objects.bulk_create(
        models.SlotEvent(
            slot=slot, at=now - dt.timedelta(hours=9 * number), kind=kinds[number % len(kinds)],
            message="an event of the bench",
        )
        for number in range(900)
    )  # fmt: skip


def ask(addresses: dict[str, str], requests: int) -> dict[str, dict[str, Any]]:
    """Each address so often; the first answer, which fills caches, is not counted."""
    from tests.benchmarks.pages.measuring import Asker, Cost, read_cost

    asker = Asker()
    found: dict[str, dict[str, Any]] = {}
    for what, address in addresses.items():
        texts: list[str] = []

        def once(address: str = address, texts: list[str] = texts) -> None:
            texts[:] = [asker.get(address)]

        costs: list[Cost] = [read_cost(once) for _ in range(requests + 1)][1:]
        found[what] = {
            "ms": [cost.ms for cost in costs],
            "cpu_ms": [cost.cpu_ms or 0 for cost in costs],
            "queries": max(cost.queries for cost in costs),
            "slowest": max(costs, key=lambda cost: cost.slowest_ms).slowest[:300],
            "bytes": len(texts[0]),
            "points": longest(texts[0]),
        }
    return found


def longest(text: str) -> int | None:
    """The most points of any series in a JSON answer; None: it is none."""
    try:
        return _longest(json.loads(text))
    except ValueError:
        return None


def _longest(value: Any) -> int:
    if isinstance(value, dict):
        if set(value) >= {"dtype", "bdata"}:
            return len(base64.b64decode(value["bdata"])) // _WIDTHS[value["dtype"]]
        return max(map(_longest, value.values()), default=0)
    if isinstance(value, list):
        of_numbers = len(value) if any(isinstance(v, int | float) for v in value) else 0
        return max(of_numbers, max(map(_longest, value), default=0))
    return 0


def main(count: int, requests: int) -> None:
    """Fill, ask, print."""
    from tests.benchmarks.lag.year_filling import fill

    now = dt.datetime.now(dt.UTC)
    slots = make_slots(count)
    started = time.monotonic()
    rows = fill(slots, now)
    filled = {"rows": rows, "seconds": time.monotonic() - started}
    chosen = urlencode([("slot", f"bench/slot_{number:02}") for number in range(count)], safe="/")
    from replview.ui.charts.query import CHARTS

    every = ",".join(CHARTS)
    addresses = {
        "page": f"/lag/?{chosen}&range=1y",
        "data": f"/lag/data?{chosen}&range=1y",
        "data, every chart": f"/lag/data?{chosen}&range=1y&charts={every}",
        "data, 30 days": f"/lag/data?{chosen}&range=30d",
        "data, a day": f"/lag/data?{chosen}&range=24h",
    }
    print(json.dumps({"filled": filled, "asked": ask(addresses, requests)}))


if __name__ == "__main__":
    django.setup()
    main(int(sys.argv[1]), int(sys.argv[2]))
