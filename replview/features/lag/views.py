"""Views of the lag page: the page, its charts as JSON, and as CSV."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace

import orjson
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.http import content_disposition_header

from replview.access.page import GET, VIEWER, Nav, page
from replview.features.lag.charts import csv_rows, read_charts
from replview.features.lag.events import read_checkpoints, read_events
from replview.features.lag.page import LagSlot, find_lag_slots, first_slot, lag_page
from replview.features.lag.series import read_first_sample
from replview.ui.charts.query import DEFAULT_RANGE, RANGES, LagQuery, range_covering
from replview.ui.params import scope_to
from replview.ui.shell import fleet_of, no_slot
from replview.ui.streaming import csv_pieces, stream


@page(GET, role=VIEWER, nav=Nav(group="Health", label="Lag", icon="lag", one_slot=True))
def lag(request: HttpRequest) -> HttpResponse:
    """Show the page around the charts; a script draws them from ``data``."""
    query = LagQuery.of(request.GET)
    if not query.slots:
        name = first_slot()
        if not name:
            return no_slot(
                request,
                "Lag",
                "No samples yet.",
                "This page draws what each replication slot retains and how far its consumer is "
                "behind. Add a source: its slots are sampled every few seconds, and nothing is "
                "changed on the server.",
                next="add a source; every slot on it is sampled, replview's or not.",
            )
        # Make the shown slot the scope of the page's header.
        scope_to(request, name)
        query = LagQuery.of(request.GET)
    slots = _slots(query)
    if not query.misread and not ("range" in request.GET or query.since or query.until):
        query = replace(query, range=first_range(slots, dt.datetime.now(dt.UTC)))
    page = lag_page(query, slots, fleet_of(request))
    return render(request, "lag/lag.html", {"page": page})


@page(GET, role=VIEWER, polled=True)
def data(request: HttpRequest) -> HttpResponse:
    """Return the charts and events as JSON, for the page's query."""
    query = LagQuery.of(request.GET)
    slots = _slots(query)
    now = dt.datetime.now(dt.UTC)
    since, until = query.stretch(now)
    series, charts = read_charts(slots, query.charts, since, until, now)
    events = read_events(slots, since, until)
    checkpoints, checkpoint_count = read_checkpoints(slots, since, until)
    document = {
        "now": _milliseconds(now),
        "since": _milliseconds(since),
        "until": _milliseconds(until),
        "live": query.live,
        "period": series.period,
        "step_seconds": series.step_seconds,
        "interval_seconds": series.interval_seconds,
        "charts": [chart.as_json() for chart in charts],
        "events": sorted([*events, *checkpoints], key=lambda event: event["at"]),
        "sampled": any(slot_series.times for slot_series in series.slots.values()),
        "checkpoints": checkpoint_count,
    }
    response = HttpResponse(orjson.dumps(document), content_type="application/json")
    response["Cache-Control"] = "no-store"
    return response


@page(GET, role=VIEWER)
def csv(request: HttpRequest) -> HttpResponseBase:
    """Download the charts' points as CSV."""
    query = LagQuery.of(request.GET)
    slots = _slots(query)
    now = dt.datetime.now(dt.UTC)
    _, charts = read_charts(slots, query.charts, *query.stretch(now), now)
    pieces = csv_pieces(csv_rows(charts, [slot.name for slot in slots]))
    response = stream(request, pieces, "text/csv; charset=utf-8")
    slot_names = "-".join(slot.name.replace("/", "-") for slot in slots[:3])
    name = f"lag-{slot_names}-{now:%Y%m%dT%H%M%SZ}.csv"
    response["Content-Disposition"] = content_disposition_header(True, name)
    response["Cache-Control"] = "no-store"
    return response


def first_range(slots: Sequence[LagSlot], now: dt.datetime) -> str:
    """Return the range to open with: the shortest that covers the samples of the last hour."""
    since = now - RANGES[DEFAULT_RANGE][1]
    first = read_first_sample([slot.sample_id for slot in slots], since)
    return DEFAULT_RANGE if first is None else range_covering(now - first)


def _slots(query: LagQuery) -> list[LagSlot]:
    slots = find_lag_slots(query.slots)
    if not slots:
        raise Http404("there is no such slot")
    return slots


def _milliseconds(moment: dt.datetime) -> int:
    return round(moment.timestamp() * 1000)
