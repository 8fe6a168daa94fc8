"""``/metrics``: what replview knows now, for Prometheus.

It tells of every source: an admin may read it, and a program with a token (``Authorization: Bearer
rv_…``) of scope ``metrics`` or of an admin; with ``REPLVIEW_METRICS_PUBLIC=1`` anybody who can
reach it, names of sources and slots included.

What is not known is absent, never 0. A handful of queries, however many slots there are, in one
transaction with a time limit. Where the store does not answer, what this process knows of itself
is told all the same.
"""

import datetime as dt
import time

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from replview.features.monitoring.exposition import CONTENT_TYPE, Exposition, labels_text
from replview.features.monitoring.metrics_instance import write_alerts, write_broker, write_store
from replview.features.monitoring.metrics_receivers import write_receivers
from replview.features.monitoring.metrics_slots import write_slots
from replview.features.monitoring.metrics_sources import write_sources
from replview.features.monitoring.request_metrics import own_text
from replview.store.instance_settings import read_number
from replview.store.models.seen import only_of
from replview.ui.api.access import metrics_refusal

#: No query of a scrape may last longer: Prometheus gives up after ten seconds.
_TIMEOUT = "5s"
#: What was seen longer ago tells of the past, and so do three looks that did not come.
_FRESH = dt.timedelta(seconds=30)
_LOOKS = 3
_DENIED = {
    401: "no login and no token: 'replview token create NAME --scope metrics' makes one\n",
    403: "metrics tell of every source: use a token of scope metrics, or an admin's\n",
}
_STORE_AWAY = "the store does not answer, so nobody can be recognised\n"


@never_cache
@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """One scrape."""
    began = time.perf_counter()
    if not settings.METRICS_PUBLIC:
        try:
            if status := metrics_refusal(request):
                denied = HttpResponse(_DENIED[status], status=status, content_type="text/plain")
                if status == 401:
                    denied["WWW-Authenticate"] = "Bearer"
                return denied
        except DatabaseError:
            return HttpResponse(_STORE_AWAY, status=503, content_type="text/plain")
    # Whoever may read them at all is told of every source.
    with only_of(lambda: None):
        scrape = _whole_scrape()
    scrape.one(
        "replview_scrape_seconds", "gauge", "How long this scrape took.",
        time.perf_counter() - began,
    )  # fmt: skip
    return HttpResponse(scrape.text(), content_type=CONTENT_TYPE)


def _whole_scrape() -> Exposition:
    scrape = Exposition()
    scrape.family("replview_build_info", "gauge", "replview's version; always 1.")
    scrape.sample("replview_build_info", labels_text(version=settings.VERSION), 1)
    told = Exposition()
    try:
        _write_store_side(told)
    except DatabaseError:
        # Half of it would look like slots that are gone.
        scrape.one("replview_store_up", "gauge", "Whether the store answers.", False)
    else:
        scrape.one("replview_store_up", "gauge", "Whether the store answers.", True)
        scrape.raw(told.text())
    write_broker(scrape)
    scrape.raw(own_text())
    return scrape


def _write_store_side(scrape: Exposition) -> None:
    """Everything the store knows, as of one moment or nearly."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [_TIMEOUT])
        now, fresh = timezone.now(), _fresh()
        write_slots(scrape, now, fresh)
        write_receivers(scrape, now)
        write_sources(scrape, now, fresh)
        write_alerts(scrape)
        write_store(scrape)


def _fresh() -> dt.timedelta:
    """How old a look may be and still tell of now."""
    seconds = read_number("sampling.seconds", 5, least=1, most=86_400)
    return max(_FRESH, dt.timedelta(seconds=_LOOKS * seconds))
