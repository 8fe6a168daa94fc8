"""Deliver the messages in the outbox to webhooks, each webhook in a thread of its own.

A slow webhook therefore does not delay others. A delivery is claimed by setting its next attempt to
a later time, then sent, then marked as done. If the worker dies in between, the message is sent
again later under the same id.
"""

import datetime as dt
import http.client
import logging
import random
import ssl
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

from django.db import transaction
from django.db.models import Q, QuerySet

from replview.features.alerts.messages import TEST, body_of, id_of
from replview.features.alerts.webhooks import WebhookRefused, post
from replview.store.connecting import orm_connection
from replview.store.models import Delivery
from replview.store.secrets import SecretKeyChanged, unseal

log = logging.getLogger(__name__)

#: Age at which a delivery that keeps failing is given up.
GIVE_UP_AFTER = dt.timedelta(days=1)
_FIRST_PAUSE_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 3600.0
#: Duration of a claim: longer than any attempt, even with slow name resolution.
_CLAIM_DURATION = dt.timedelta(seconds=60)
#: Maximum length of one webhook's run; the next run continues.
_RUN_SECONDS = 20.0
_THREADS = 8

_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="webhook")
_lock = threading.Lock()
#: Ids of webhooks that a thread of this process is delivering to.
_busy: set[int] = set()


#: SQL condition that is false when ``due_deliveries`` can find nothing.
ANY_DUE = """
    EXISTS (SELECT FROM delivery WHERE next_try_at IS NOT NULL)
"""


def due_deliveries(now: dt.datetime) -> QuerySet[Delivery]:
    """Return the deliveries to try now; a disabled webhook gets only test messages."""
    waiting = Delivery.objects.filter(delivered_at=None, given_up_at=None, next_try_at__lte=now)
    return waiting.filter(Q(webhook__enabled=True) | Q(event=TEST))


def claim_delivery(due: QuerySet[Delivery], until: dt.datetime) -> Delivery | None:
    """Claim the first due delivery that no other worker holds, and return it.

    Nobody else gets the delivery before ``until``. None means that nothing is due.
    """
    with transaction.atomic():
        unlocked = due.select_for_update(skip_locked=True, of=("self",))
        delivery = unlocked.order_by("next_try_at", "pk").first()
        if delivery is None:
            return None
        delivery.attempts += 1
        delivery.next_try_at = until
        delivery.save(update_fields=["attempts", "next_try_at"])
    related = Delivery.objects.select_related(
        "webhook", "alert__rule", "alert__source", "alert__slot"
    )
    return related.filter(pk=delivery.pk).first()


def deliver_due() -> list[Future[None]]:
    """Start delivering everything that is due, and return without waiting."""
    now = dt.datetime.now(dt.UTC)
    webhooks = set(due_deliveries(now).values_list("webhook_id", flat=True))
    futures = []
    for webhook_id in webhooks:
        with _lock:
            if webhook_id in _busy:
                continue
            _busy.add(webhook_id)
        futures.append(_pool.submit(_deliver_to, webhook_id))
    return futures


def deliver_next(webhook_id: int, now: dt.datetime | None = None) -> Delivery | None:
    """Try the webhook's first due delivery and return it, or None if none is due."""
    now = now or dt.datetime.now(dt.UTC)
    delivery = claim_delivery(
        due_deliveries(now).filter(webhook_id=webhook_id), now + _CLAIM_DURATION
    )
    if delivery is None:
        return None
    problem, status = try_once(delivery)
    delivery.status, delivery.problem = status, problem
    if not problem:
        delivery.delivered_at, delivery.next_try_at = now, None
    elif now - delivery.created_at >= GIVE_UP_AFTER or delivery.event == TEST:
        # A test is not repeated: the user who started it sees its result.
        delivery.given_up_at, delivery.next_try_at = now, None
        log.warning("webhook %s: a delivery is given up: %s", delivery.webhook.pk, problem)
    else:
        delivery.next_try_at = now + pause_after(delivery.attempts)
    delivery.save(update_fields=["status", "problem", "delivered_at", "given_up_at", "next_try_at"])
    return delivery


def pause_after(attempts: int) -> dt.timedelta:
    """Return the pause after a failed attempt.

    It doubles with each attempt, up to an hour, and varies randomly so that retries spread out.
    """
    doubled = _FIRST_PAUSE_SECONDS * 2 ** min(attempts - 1, 20)
    return dt.timedelta(seconds=min(doubled, _LONGEST_PAUSE_SECONDS) * random.uniform(0.75, 1.25))


def try_once(delivery: Delivery) -> tuple[str, int | None]:
    """Send the delivery; return the problem (empty if it arrived) and the HTTP status."""
    webhook = delivery.webhook
    try:
        status = post(
            unseal(webhook.sealed_url),
            body_of(delivery),
            secret=unseal(webhook.sealed_secret) if webhook.sealed_secret else "",
            delivery_id=id_of(delivery),
            allow_private=webhook.allow_private,
        )
    except WebhookRefused as error:
        return str(error), None
    except SecretKeyChanged:
        return (
            "the address was encrypted with another REPLVIEW_SECRET_KEY: add the webhook again",
            None,
        )
    except TimeoutError:
        return "no answer in time", None
    except ssl.SSLError as error:
        return f"TLS failed: {error.reason or type(error).__name__}".replace("_", " "), None
    except ConnectionRefusedError:
        return "the connection was refused", None
    except (OSError, http.client.HTTPException) as error:
        return f"the connection failed ({type(error).__name__})", None
    if 200 <= status < 300:
        return "", status
    explanation = ": redirects are not followed" if 300 <= status < 400 else ""
    return f"answered {status}{explanation}", status


def _deliver_to(webhook_id: int) -> None:
    """Deliver to the webhook in this thread, with a store connection that is closed again."""
    ends_at = time.monotonic() + _RUN_SECONDS
    try:
        with orm_connection():
            while time.monotonic() < ends_at and deliver_next(webhook_id) is not None:
                pass
    except Exception:
        log.exception("delivering to webhook %s failed", webhook_id)
    finally:
        with _lock:
            _busy.discard(webhook_id)
