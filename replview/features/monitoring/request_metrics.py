"""Metrics of this process: counts and durations of the requests that it answered."""

import time
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

#: A registry of our own: other libraries add metrics to the default one.
REGISTRY = CollectorRegistry()
disable_created_metrics()  # type: ignore[no-untyped-call]
ProcessCollector(namespace="replview_web", registry=REGISTRY)
_requests = Counter(
    "replview_web_requests",
    "Requests this process answered, by view and class of status.",
    ["view", "status"],
    registry=REGISTRY,
)
_durations = Histogram(
    "replview_web_request_duration_seconds",
    "From a request to the beginning of its answer, by view.",
    ["view"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    registry=REGISTRY,
)


@sync_and_async_middleware
def RequestMetricsMiddleware(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Count every answer that Django gives; static files are served before it."""
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            began = time.perf_counter()
            return _count_response(request, await get_response(request), began)

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        began = time.perf_counter()
        return _count_response(request, get_response(request), began)

    return answer


def _count_response(
    request: HttpRequest, response: HttpResponseBase, began: float
) -> HttpResponseBase:
    """Count the response and its duration, and return it."""
    view = view_of(request)
    _requests.labels(view, f"{response.status_code // 100}xx").inc()
    _durations.labels(view).observe(time.perf_counter() - began)
    return response


def view_of(request: HttpRequest) -> str:
    """Return the URL's name, so that the number of label values is bounded."""
    match = request.resolver_match
    return "none" if match is None else match.view_name or "unnamed"
