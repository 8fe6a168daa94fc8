"""What alerts need of the store beyond the ORM: one evaluator at a time, and claimed deliveries."""

import datetime as dt
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager

from django.db import connection, transaction
from django.db.models import Q, QuerySet

from replview.store.models import AlertRule, Delivery, WatchedSlot

#: Of the advisory locks: rules are inserted once; there is one evaluator.
INSERT_LOCK = 0x7265706C616C31
EVALUATE_LOCK = 0x7265706C616C32


@contextmanager
def one_evaluator() -> Iterator[bool]:
    """A transaction that only one process is in; yields False where another one is."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [EVALUATE_LOCK])
            (mine,) = cursor.fetchone()
        yield bool(mine)


def apart() -> AbstractContextManager[None]:
    """What fails inside is undone alone."""
    return transaction.atomic()


def insert_rules(rules: Collection[AlertRule]) -> None:
    """Insert those whose key is not there yet; two that begin at once insert each once."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [INSERT_LOCK])
        known = known_keys(rule.key for rule in rules)
        AlertRule.objects.bulk_create(rule for rule in rules if rule.key not in known)


def known_keys(keys: Iterator[str] | Collection[str]) -> set[str]:
    """Which of these rules are there."""
    return set(AlertRule.objects.filter(key__in=list(keys)).values_list("key", flat=True))


def own_rule(base: AlertRule, slot: WatchedSlot) -> AlertRule:
    """The slot's own rule instead of one for all: the one it has, else a copy, not saved yet."""
    known = AlertRule.objects.filter(overrides=base, slot=slot).first()
    if known is not None:
        return known
    own = AlertRule.objects.get(pk=base.pk)
    own.pk, own._state.adding = None, True
    own.overrides_id, own.slot = base.pk, slot
    own.built_in, own.key = False, ""
    return own


def due_deliveries(now: dt.datetime, *, whatever: str) -> QuerySet[Delivery]:
    """Those to be tried now. Deliveries of a webhook that is switched off wait; the event
    ``whatever`` does not.
    """
    waiting = Delivery.objects.filter(delivered_at=None, given_up_at=None, next_try_at__lte=now)
    return waiting.filter(Q(webhook__enabled=True) | Q(event=whatever))


def claim_delivery(due: QuerySet[Delivery], until: dt.datetime) -> Delivery | None:
    """Take the first that nobody else holds, and let nobody else take it until then."""
    with transaction.atomic():
        found = (
            due.select_for_update(skip_locked=True, of=("self",))
            .order_by("next_try_at", "pk")
            .first()
        )
        if found is None:
            return None
        found.attempts += 1
        found.next_try_at = until
        found.save(update_fields=["attempts", "next_try_at"])
    related = Delivery.objects.select_related(
        "webhook", "alert__rule", "alert__source", "alert__slot"
    )
    return related.filter(pk=found.pk).first()


def store_bytes() -> int:
    """What the store's database occupies."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        (size,) = cursor.fetchone()
    return int(size)
