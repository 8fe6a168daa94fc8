"""``/metrics`` reports the current state of replview to Prometheus.

The metrics name every source. An admin may read them, and a program whose token (``Authorization:
Bearer rv_…``) has scope ``metrics`` or belongs to an admin. With ``REPLVIEW_METRICS_PUBLIC=1`` any
client that reaches the address may read them, names of sources and slots included.

An unknown value is left out, never reported as 0. The number of queries does not depend on the
number of slots; all run in one transaction with a time limit. If the store does not answer, the
metrics of this process and of the broker are still reported.
"""

import datetime as dt
import time

import psycopg
import redis
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.cache import cache
from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from prometheus_client import (
    generate_latest,
)
from redis.backoff import NoBackoff
from redis.retry import Retry

from replview.access.page import EVERYONE, SAFE, page
from replview.features.monitoring.exposition import CONTENT_TYPE, Exposition, Measure, labels_text
from replview.features.monitoring.metrics_slots import write_slots, write_sources
from replview.features.monitoring.request_metrics import REGISTRY
from replview.health.source_state import stale_after
from replview.store.django_session import rows
from replview.store.identity import redis_prefix
from replview.store.models import Alert, AlertRule, Delivery, Slot, Transaction
from replview.store.models.seen import only_of
from replview.ui.api.access import metrics_refusal

QUEUES = ("default", "receivers")
#: Seconds that Redis has to answer: a broker that hangs must not delay the scrape.
_BROKER_SECONDS = 0.5
#: Seconds for which the store's size is cached: PostgreSQL reads it from every file.
_SIZE_SECONDS = 20
#: States of transactions that have not ended.
_OPEN_STATES = (
    Transaction.State.RECEIVING, Transaction.State.STREAMING, Transaction.State.PREPARED,
)  # fmt: skip
RECEIVER_MEASURES = (
    Measure("replview_receiver_up", "gauge", "up", "Whether the slot's receiver runs and streams."),
    Measure("replview_receiver_wanted", "gauge", "wanted",
            "Whether the slot is to be received: 0 where a user has stopped it."),
    Measure("replview_receiver_heartbeat_age_seconds", "gauge", "heartbeat_age_seconds",
            "Age of the receiver's last heartbeat; absent where there never was one."),
    Measure("replview_receiver_connected_seconds", "gauge", "connected_seconds",
            "Since when the receiver streams without a break."),
    Measure("replview_receiver_transactions_stored_total", "counter", "transactions_stored",
            "Transactions stored; restarts with a new incarnation of the slot."),
    Measure("replview_receiver_changes_stored_total", "counter", "changes_stored",
            "Changes stored, also what was rolled back since; restarts with a new incarnation of "
            "the slot."),
    Measure("replview_receiver_bytes_stored_total", "counter", "bytes_stored",
            "Bytes of stored transactions as sent; restarts with a new incarnation of the slot."),
    Measure("replview_receiver_last_stored_timestamp_seconds", "gauge", "last_stored_seconds",
            "When something was stored last."),
    Measure("replview_receiver_batch_changes", "gauge", "batch_changes",
            "Changes in the last transaction with the store."),
    Measure("replview_receiver_batch_bytes", "gauge", "batch_bytes",
            "Bytes in the last transaction with the store."),
    Measure("replview_receiver_batch_seconds", "gauge", "batch_seconds",
            "How long the last transaction with the store took."),
    Measure("replview_receiver_memory_bytes", "gauge", "memory_bytes",
            "Memory of the process that the receiver is in; receivers of one worker share it."),
)  # fmt: skip
#: Time limit of each query: Prometheus gives up after ten seconds by default.
_STATEMENT_TIMEOUT = "5s"
_REFUSALS = {
    401: "no login and no token: 'replview token create NAME --scope metrics' makes one\n",
    403: "metrics cover every source: use a token of scope metrics, or an admin's\n",
}
_STORE_UNREACHABLE = "the store does not answer, so nobody can be recognised\n"


def write_alerts(scrape: Exposition) -> None:
    """Write the number of firing alerts by severity, including zeros, and of waiting messages."""
    firing = Alert.objects.filter(state=Alert.State.FIRING).order_by()
    counts = dict(firing.values_list("rule__severity").annotate(alerts=Count("pk")))
    scrape.family("replview_alerts_firing", "gauge", "Alerts of replview's own rules that fire.")
    for severity in AlertRule.Severity:
        labels = labels_text(severity=severity)
        scrape.sample("replview_alerts_firing", labels, counts.get(severity, 0))
    scrape.one(
        "replview_alert_deliveries_waiting", "gauge",
        "Messages of alerts that no webhook has taken yet, and that are tried again.",
        Delivery.objects.filter(delivered_at=None, given_up_at=None).count(),
    )  # fmt: skip


def write_store(scrape: Exposition) -> None:
    """Write the size of the store's database and the number of open transactions by state."""
    scrape.one(
        "replview_store_size_bytes", "gauge", "Size of the store's database.", _store_size_bytes()
    )
    open_ = Transaction.objects.filter(state__in=_OPEN_STATES).order_by()
    counts = dict(open_.values_list("state").annotate(transactions=Count("pk")))
    scrape.family(
        "replview_store_transactions_open", "gauge", "Transactions in the record that have not "
        "ended on their source.",
    )  # fmt: skip
    for state in _OPEN_STATES:
        labels = labels_text(state=state)
        scrape.sample("replview_store_transactions_open", labels, counts.get(state, 0))


def _store_size_bytes() -> int | None:
    """Return the size of the store's database in bytes, cached for some seconds."""
    size_bytes: int | None = cache.get("metrics-store-size")
    if size_bytes is None:
        size_bytes = rows("SELECT pg_database_size(current_database())")[0][0]
        cache.set("metrics-store-size", size_bytes, _SIZE_SECONDS)
    return size_bytes


def write_broker(scrape: Exposition) -> None:
    """Write the number of waiting tasks by queue; no queues if Redis does not answer."""
    lengths = _queue_lengths()
    scrape.one("replview_broker_up", "gauge", "Whether Redis answers.", lengths is not None)
    scrape.family(
        "replview_celery_queue_length", "gauge",
        "Tasks that wait for a worker: in replview they wait for less than a second.",
    )  # fmt: skip
    for queue, length in (lengths or {}).items():
        scrape.sample("replview_celery_queue_length", labels_text(queue=queue), length)


def _queue_lengths() -> dict[str, int] | None:
    """Return the number of waiting tasks by queue; None if Redis does not answer."""
    seconds = _BROKER_SECONDS
    try:
        client = redis.Redis.from_url(
            settings.REDIS_URL,
            socket_connect_timeout=seconds, socket_timeout=seconds, retry=Retry(NoBackoff(), 0),
        )  # fmt: skip
        with client, client.pipeline(transaction=False) as pipeline:
            for queue in QUEUES:
                pipeline.llen(queue_key(queue))
            return dict(zip(QUEUES, pipeline.execute(), strict=True))
    except (redis.RedisError, ValueError, psycopg.OperationalError):
        return None


def queue_key(queue: str) -> str:
    """Return the queue's Redis key, as configured in ``replview.runtime.celery_settings``."""
    return f"{redis_prefix()}-{queue}"


def write_receivers(scrape: Exposition, now: dt.datetime) -> None:
    """Write the state of all receivers with one query."""
    slots = Slot.objects.filter(temporary=False, source__ephemeral=False)
    rows = []
    for row in slots.exclude(desired=Slot.Desired.REMOVING).order_by("id").values_list(
        "source__name", "name", "state", "desired", "heartbeat_at", "connected_at",
        "transactions_stored", "changes_stored", "bytes_stored", "last_stored_at",
        "receiver_facts",
    ):  # fmt: skip
        (source, name, state, desired, heartbeat_at, connected_at,
         transactions, changes, stored_bytes, last_stored_at, facts) = row  # fmt: skip
        age = None if heartbeat_at is None else max(0.0, (now - heartbeat_at).total_seconds())
        alive = age is not None and age < settings.LEASE_SECONDS
        up = alive and state == Slot.State.STREAMING
        receiver = {
            # The receiver reported these with its last heartbeat.
            **(facts if alive and isinstance(facts, dict) else {}),
            "up": up,
            "wanted": desired == Slot.Desired.RUNNING,
            "heartbeat_age_seconds": age,
            "connected_seconds": max(0.0, (now - connected_at).total_seconds())
            if up and connected_at is not None
            else None,
            "transactions_stored": transactions,
            "changes_stored": changes,
            "bytes_stored": stored_bytes,
            "last_stored_seconds": last_stored_at and last_stored_at.timestamp(),
        }
        rows.append((labels_text(source=source, slot=name), receiver))
    scrape.table(RECEIVER_MEASURES, rows)


@page(SAFE, role=EVERYONE)
@never_cache
@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics, or refuse a request without the right to read them."""
    began = time.perf_counter()
    if not settings.METRICS_PUBLIC:
        try:
            if status := metrics_refusal(request):
                refusal = HttpResponse(_REFUSALS[status], status=status, content_type="text/plain")
                if status == 401:
                    refusal["WWW-Authenticate"] = "Bearer"
                return refusal
        except DatabaseError:
            return HttpResponse(_STORE_UNREACHABLE, status=503, content_type="text/plain")
    # Metrics cover every source, whatever the account's rights on sources.
    with only_of(lambda: None):
        scrape = _whole_scrape()
    scrape.one(
        "replview_scrape_seconds", "gauge", "How long this scrape took.",
        time.perf_counter() - began,
    )  # fmt: skip
    return HttpResponse(scrape.text(), content_type=CONTENT_TYPE)


def _whole_scrape() -> Exposition:
    """Write all metrics; leave out those of the store if it does not answer."""
    scrape = Exposition()
    scrape.family("replview_build_info", "gauge", "replview's version; always 1.")
    scrape.sample("replview_build_info", labels_text(version=settings.VERSION), 1)
    store_side = Exposition()
    try:
        _write_store_side(store_side)
    except DatabaseError:
        # Drop the partial output: missing slots would look like dropped ones.
        scrape.one("replview_store_up", "gauge", "Whether the store answers.", False)
    else:
        scrape.one("replview_store_up", "gauge", "Whether the store answers.", True)
        scrape.raw(store_side.text())
    write_broker(scrape)
    scrape.raw(generate_latest(REGISTRY).decode())
    return scrape


def _write_store_side(scrape: Exposition) -> None:
    """Write everything that is read from the store, in one transaction."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [_STATEMENT_TIMEOUT])
        now, fresh = timezone.now(), stale_after()
        write_slots(scrape, now, fresh)
        write_receivers(scrape, now)
        write_sources(scrape, now, fresh)
        write_alerts(scrape)
        write_store(scrape)
