"""The instance itself: alerts, the store, the broker's queues. Bounded: nothing here waits long."""

import psycopg
import redis
from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.db.models import Count
from redis.backoff import NoBackoff
from redis.retry import Retry

from replview.features.monitoring.exposition import Exposition, labels_text
from replview.store.instance_identity import redis_prefix
from replview.store.models import Alert, AlertRule, Delivery, Transaction

QUEUES = ("default", "receivers")
#: The broker is asked on the way: one that hangs must not hold the scrape up.
_BROKER_SECONDS = 0.5
#: The store's size is a look at every file it has, and changes slowly.
_SIZE_SECONDS = 20
#: States of transactions that have not ended.
_OPEN = (
    Transaction.State.RECEIVING, Transaction.State.STREAMING, Transaction.State.PREPARED,
)  # fmt: skip


def write_alerts(scrape: Exposition) -> None:
    """How many fire now; 0 is known, and said."""
    firing = Alert.objects.filter(state=Alert.State.FIRING).order_by()
    found = firing.values_list("rule__severity").annotate(alerts=Count("pk"))
    counts = dict(found)
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
    """What the record has grown to, and what in it is still open."""
    scrape.one("replview_store_size_bytes", "gauge", "Size of the store's database.", _size())
    open_ = Transaction.objects.filter(state__in=_OPEN).order_by()
    counts = dict(open_.values_list("state").annotate(transactions=Count("pk")))
    scrape.family(
        "replview_store_transactions_open", "gauge", "Transactions in the record that have not "
        "ended on their source.",
    )  # fmt: skip
    for state in _OPEN:
        labels = labels_text(state=state)
        scrape.sample("replview_store_transactions_open", labels, counts.get(state, 0))


def _size() -> int | None:
    known: int | None = cache.get("metrics-store-size")
    if known is None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_database_size(current_database())")
            known = cursor.fetchone()[0]
        cache.set("metrics-store-size", known, _SIZE_SECONDS)
    return known


def write_broker(scrape: Exposition) -> None:
    """The tasks that wait in Redis. A broker that does not answer is 0 and has no queues."""
    lengths = _queue_lengths()
    scrape.one("replview_broker_up", "gauge", "Whether Redis answers.", lengths is not None)
    scrape.family(
        "replview_celery_queue_length", "gauge",
        "Tasks that wait for a worker: in replview they wait for less than a second.",
    )  # fmt: skip
    for queue, length in (lengths or {}).items():
        scrape.sample("replview_celery_queue_length", labels_text(queue=queue), length)


def _queue_lengths() -> dict[str, int] | None:
    seconds = _BROKER_SECONDS
    try:
        client = redis.Redis.from_url(
            settings.REDIS_URL,
            socket_connect_timeout=seconds, socket_timeout=seconds, retry=Retry(NoBackoff(), 0),
        )  # fmt: skip
        with client, client.pipeline(transaction=False) as asked:
            for queue in QUEUES:
                asked.llen(queue_key(queue))
            return dict(zip(QUEUES, asked.execute(), strict=True))
    except (redis.RedisError, ValueError, psycopg.OperationalError):
        return None


def queue_key(queue: str) -> str:
    """The queue's key on Redis, as ``replview.runtime.celery_settings`` has it made."""
    return f"{redis_prefix()}-{queue}"
