"""Celery tasks that evaluate rules, deliver alerts, and delete old ones."""

import datetime as dt

from psycopg import sql

from replview.features.alerts.delivery import ANY_DUE, deliver_due
from replview.features.alerts.evaluation import evaluate
from replview.jobs.running import chore, task
from replview.store.models import Alert, Delivery

#: Ages at which cleared alerts and finished deliveries are deleted.
ALERTS_KEPT = dt.timedelta(days=366)
DELIVERIES_KEPT = dt.timedelta(days=30)

# Delivery follows evaluation, so that new alerts are sent at once.
chore(evaluate, "replview.evaluate_alerts")
chore(deliver_due, "replview.deliver_alerts", when=sql.SQL(ANY_DUE))


@task("replview.forget_alerts")
def forget_alerts() -> None:
    """Delete old cleared alerts and old finished deliveries."""
    now = dt.datetime.now(dt.UTC)
    Delivery.objects.filter(created_at__lt=now - DELIVERIES_KEPT, next_try_at=None).delete()
    cleared = Alert.objects.filter(state=Alert.State.CLEARED)
    cleared.filter(cleared_at__lt=now - ALERTS_KEPT).delete()
