"""Celery's tasks: evaluate the rules and deliver every few seconds, forget the old."""

import datetime as dt

from celery import shared_task

from replview.features.alerts.delivery import ANY_DUE, deliver_due
from replview.features.alerts.evaluation import evaluate
from replview.jobs.running import chore
from replview.store.connecting import orm_connection
from replview.store.models import Alert, Delivery

#: Alerts that are over are kept for a year, deliveries for a month.
ALERTS_KEPT = dt.timedelta(days=366)
DELIVERIES_KEPT = dt.timedelta(days=30)

# What fired goes out at once.
chore(evaluate)
chore(deliver_due, when=ANY_DUE)


@shared_task(name="replview.evaluate_alerts", ignore_result=True)
def evaluate_alerts() -> None:
    """Take all rules one step on."""
    with orm_connection():
        evaluate()


@shared_task(name="replview.deliver_alerts", ignore_result=True)
def deliver_alerts() -> None:
    """Begin to deliver what is due."""
    with orm_connection():
        deliver_due()


@shared_task(name="replview.forget_alerts", ignore_result=True)
def forget_alerts() -> None:
    """Delete what is old."""
    now = dt.datetime.now(dt.UTC)
    with orm_connection():
        Delivery.objects.filter(created_at__lt=now - DELIVERIES_KEPT, next_try_at=None).delete()
        cleared = Alert.objects.filter(state=Alert.State.CLEARED)
        cleared.filter(cleared_at__lt=now - ALERTS_KEPT).delete()
