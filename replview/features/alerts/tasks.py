"""Celery's tasks: evaluate the rules and deliver every few seconds, forget the old."""

import datetime as dt

from replview.features.alerts.delivery import ANY_DUE, deliver_due
from replview.features.alerts.evaluation import evaluate
from replview.jobs.running import chore, task
from replview.store.models import Alert, Delivery

#: Alerts that are over are kept for a year, deliveries for a month.
ALERTS_KEPT = dt.timedelta(days=366)
DELIVERIES_KEPT = dt.timedelta(days=30)

# What fired goes out at once.
chore(evaluate, "replview.evaluate_alerts")
chore(deliver_due, "replview.deliver_alerts", when=ANY_DUE)


@task("replview.forget_alerts")
def forget_alerts() -> None:
    now = dt.datetime.now(dt.UTC)
    Delivery.objects.filter(created_at__lt=now - DELIVERIES_KEPT, next_try_at=None).delete()
    cleared = Alert.objects.filter(state=Alert.State.CLEARED)
    cleared.filter(cleared_at__lt=now - ALERTS_KEPT).delete()
