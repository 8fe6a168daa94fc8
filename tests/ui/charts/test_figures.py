"""Figures: plotly takes every one, gaps stay gaps, what is unknown is said, axes read well."""

from functools import partial
from typing import Any

import plotly.graph_objects as go
import pytest

from replview.features.lag.figures import (
    DRAWN,
    drawn,
    retained_wal,
    table_rates,
    transaction_sizes,
)
from replview.ui.charts.axis import axis, words_of
from replview.ui.charts.figure import Chart, SlotValues

GB = 1 << 30
TIMES = [1000.0, 6000.0, 11000.0, 16000.0]


def slot(name: str = "shop/replview", **values: list[Any]) -> SlotValues:
    return SlotValues(name=name, times=TIMES, values=values)


def lines(chart: Chart) -> dict[str, list[Any]]:
    return {
        trace["name"]: trace["y"]
        for trace in chart.figure["data"]
        if not trace["meta"].get("hatched")
    }


KNOWN = {
    "retained_wal_bytes": [GB, None, 2 * GB, 60 * GB],
    "unconfirmed_wal_bytes": [1, None, 2, 3],
    "replay_lag_seconds": [0.5, 1, None, None],
    "active": [True, True, False, False],
    "wal_written": [None, 5e6, 5e6, 5e6],
    "wal_read": [None, 5e6, 0, 0],
    "stored_after_p50_seconds": [0.04, None, 0.05, 0.05],
    "stored_after_p99_seconds": [0.4, None, 0.5, 0.5],
    "total_bytes": [1, 2, 3, 4],
    "batch_changes": [1, 2, 3, 4],
    "memory_bytes": [1e8, 1e8, 1e8, None],
}
FIGURES = [retained_wal, *(partial(drawn, key) for key in DRAWN)]


@pytest.mark.parametrize("draw", FIGURES)
@pytest.mark.parametrize("values", [KNOWN, {}], ids=["known", "unknown"])
@pytest.mark.parametrize("number", [1, 20])
def test_plotly_takes_it(draw: Any, values: dict[str, list[Any]], number: int) -> None:
    chart = draw([slot(f"shop/slot_{n}", **values) for n in range(number)])

    go.Figure(chart.figure)
    if not values:
        assert chart.note
    if number == 20:
        looks = [(t["meta"]["ink"], t["line"]["dash"]) for t in chart.figure["data"]]
        assert len(set(looks)) == 20


def test_the_record_s_charts_are_plotly_s_too() -> None:
    rates = table_rates(TIMES, [("public.orders", [1, 2, 3, 4]), ("others", [1] * 4)], by="changes")
    sizes = transaction_sizes({-1: 3, 0: 10, 3: 5})

    go.Figure(rates.figure)
    go.Figure(sizes.figure)
    assert rates.figure["layout"]["yaxis"]["range"][1] >= 5  # stacked
    assert sizes.figure["data"][0]["x"] == ["none", "1", "2–3", "4–7", "8–15"]
    assert sizes.figure["data"][0]["y"] == [3, 10, 0, 0, 5]
    assert table_rates([], [], by="bytes").note
    assert transaction_sizes({}).note


def test_a_gap_stays_a_gap() -> None:
    chart = retained_wal([slot(**KNOWN)])

    assert lines(chart)["retained"] == [GB, None, 2 * GB, 60 * GB]
    assert chart.figure["data"][0]["connectgaps"] is False


def test_a_limit_is_drawn_once_it_is_near() -> None:
    near = retained_wal([slot(**KNOWN)], limit_bytes=64 * GB, budget_bytes=32 * GB)
    far = retained_wal([slot(retained_wal_bytes=[GB] * 4)], limit_bytes=64 * GB)

    words = [one["text"] for one in near.figure["layout"]["annotations"]]
    assert words == ["budget 32\xa0GB", "limit 64\xa0GB, the slot is lost here"]
    assert far.figure["layout"]["shapes"] == []
    assert far.note == "limit 64\xa0GB, far above"


def test_what_nobody_reads_has_no_lag_and_is_hatched() -> None:
    chart = drawn("lag", [slot(**KNOWN)])

    assert lines(chart)["replay"] == [0.5, 1, None, None]
    assert chart.unknown == [
        {"since": 11000.0, "until": 16000.0, "why": "the slot has no consumer", "open": True}
    ]
    hatched = [trace for trace in chart.figure["data"] if trace["meta"].get("hatched")]
    assert len(hatched) == 1


def test_a_lost_slot_is_hatched_not_zero() -> None:
    chart = retained_wal([
        slot(retained_wal_bytes=[GB, GB, None, None], lost=[False, False, True, True])
    ])  # fmt: skip

    assert [one["why"] for one in chart.unknown] == ["the slot is lost"]
    assert 0 not in lines(chart)["retained"]


@pytest.mark.parametrize(
    ("unit", "highest", "words"),
    [
        ("bytes", 64 * GB, ["0", "16\xa0GB", "32\xa0GB", "48\xa0GB", "64\xa0GB"]),
        ("bytes/s", 5.3 * (1 << 20), ["0", "2\xa0MB/s", "4\xa0MB/s", "6\xa0MB/s"]),
        ("seconds", 9, ["0", "2\xa0s", "4\xa0s", "6\xa0s", "8\xa0s", "10\xa0s"]),
        ("seconds", 0, ["0", "500\xa0ms", "1\xa0s"]),
        ("changes/s", 1100, ["0", "500/s", "1,000/s"]),
        ("changes", 0, ["0", "0.5", "1"]),
    ],
)
def test_ticks_read_well(unit: str, highest: float, words: list[str]) -> None:
    found = axis(unit, highest)

    assert found.words[: len(words)] == words
    assert found.top >= highest


@pytest.mark.parametrize("unit", ["bytes", "bytes/s", "seconds", "changes", "changes/s"])
def test_no_axis_is_crowded(unit: str) -> None:
    for power in range(-4, 19):
        for factor in (1, 1.7, 2.3, 5, 9.9):
            found = axis(unit, factor * 10**power)
            assert 2 <= len(found.values) <= 7
            assert len(set(found.words)) == len(found.words)


def test_values_have_units() -> None:
    assert words_of("bytes", 1536) == "1.5\xa0kB"
    assert words_of("seconds", 0.041) == "41\xa0ms"
    assert words_of("seconds", 300) == "5\xa0min"
