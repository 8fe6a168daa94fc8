"""Delivers what the outbox holds: each webhook in a thread of its own, so none delays another.

A delivery is claimed by moving its next try ahead, then sent, then noted: a worker that dies in
between sends it again later, under the same id.
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
from replview.features.alerts.webhooks import Refused, post
from replview.store.connecting import orm_connection
from replview.store.models import Delivery
from replview.store.secrets import SecretKeyChanged, unseal

log = logging.getLogger(__name__)

#: After so long a delivery is given up.
GIVE_UP_AFTER = dt.timedelta(days=1)
_FIRST_PAUSE_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 3600.0
#: Claimed for so long: longer than a try takes, also where resolving a name is slow.
_CLAIM = dt.timedelta(seconds=60)
#: One run of one webhook; the next run goes on.
_RUN_SECONDS = 20.0
_THREADS = 8

_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="webhook")
_lock = threading.Lock()
#: Webhooks that a thread of this process delivers to.
_busy: set[int] = set()


#: Whether ``due_deliveries`` may find any.
ANY_DUE = """
    EXISTS (SELECT FROM delivery WHERE next_try_at IS NOT NULL)
"""


def due_deliveries(now: dt.datetime) -> QuerySet[Delivery]:
    """Those to be tried now. Of a webhook that is switched off all but a test wait."""
    waiting = Delivery.objects.filter(delivered_at=None, given_up_at=None, next_try_at__lte=now)
    return waiting.filter(Q(webhook__enabled=True) | Q(event=TEST))


def claim_delivery(due: QuerySet[Delivery], until: dt.datetime) -> Delivery | None:
    """Take the first that nobody else holds, and let nobody else take it until then."""
    with transaction.atomic():
        unheld = due.select_for_update(skip_locked=True, of=("self",))
        found = unheld.order_by("next_try_at", "pk").first()
        if found is None:
            return None
        found.attempts += 1
        found.next_try_at = until
        found.save(update_fields=["attempts", "next_try_at"])
    related = Delivery.objects.select_related(
        "webhook", "alert__rule", "alert__source", "alert__slot"
    )
    return related.filter(pk=found.pk).first()


def deliver_due() -> list[Future[None]]:
    """Begin to deliver all that is due; returns at once."""
    now = dt.datetime.now(dt.UTC)
    webhooks = set(due_deliveries(now).values_list("webhook_id", flat=True))
    begun = []
    for webhook_id in webhooks:
        with _lock:
            if webhook_id in _busy:
                continue
            _busy.add(webhook_id)
        begun.append(_pool.submit(_deliver_to, webhook_id))
    return begun


def deliver_next(webhook_id: int, now: dt.datetime | None = None) -> Delivery | None:
    """Try the webhook's first delivery that is due; None: none is."""
    now = now or dt.datetime.now(dt.UTC)
    delivery = claim_delivery(due_deliveries(now).filter(webhook_id=webhook_id), now + _CLAIM)
    if delivery is None:
        return None
    problem, status = try_once(delivery)
    delivery.status, delivery.problem = status, problem
    if not problem:
        delivery.delivered_at, delivery.next_try_at = now, None
    elif now - delivery.created_at >= GIVE_UP_AFTER or delivery.event == TEST:
        # A test that fails is seen by whoever asked for it.
        delivery.given_up_at, delivery.next_try_at = now, None
        log.warning("webhook %s: a delivery is given up: %s", delivery.webhook.pk, problem)
    else:
        delivery.next_try_at = now + pause_after(delivery.attempts)
    delivery.save(update_fields=["status", "problem", "delivered_at", "given_up_at", "next_try_at"])
    return delivery


def pause_after(attempts: int) -> dt.timedelta:
    """Doubled with each try, up to an hour; spread, so that many do not come at once."""
    doubled = _FIRST_PAUSE_SECONDS * 2 ** min(attempts - 1, 20)
    return dt.timedelta(seconds=min(doubled, _LONGEST_PAUSE_SECONDS) * random.uniform(0.75, 1.25))


def try_once(delivery: Delivery) -> tuple[str, int | None]:
    """Why it did not arrive (empty: it did), and the status it was answered with."""
    webhook = delivery.webhook
    try:
        status = post(
            unseal(webhook.sealed_url),
            body_of(delivery),
            secret=unseal(webhook.sealed_secret) if webhook.sealed_secret else "",
            delivery_id=id_of(delivery),
            allow_private=webhook.allow_private,
        )
    except Refused as error:
        return str(error), None
    except SecretKeyChanged:
        return "the address was sealed with another REPLVIEW_SECRET_KEY: add the webhook anew", None
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
    why = ": redirects are not followed" if 300 <= status < 400 else ""
    return f"answered {status}{why}", status


def _deliver_to(webhook_id: int) -> None:
    """In a thread: with a store connection of its own, closed again."""
    ends = time.monotonic() + _RUN_SECONDS
    try:
        with orm_connection():
            while time.monotonic() < ends and deliver_next(webhook_id) is not None:
                pass
    except Exception:
        log.exception("delivering to webhook %s failed", webhook_id)
    finally:
        with _lock:
            _busy.discard(webhook_id)
