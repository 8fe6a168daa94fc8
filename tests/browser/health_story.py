"""A slot that nobody reads, an alert of it, one that is over, and a webhook that was told."""

import datetime as dt

from replview.features.alerts.built_in import ensure
from replview.store.models import Alert, AlertRule, Delivery, Slot, WatchedSlot, Webhook
from tests.browser.lag_story import GB, tell_story

OTHER = "debezium_billing"


def tell_health(slot: Slot) -> Alert:
    """Tell all of it, on top of an hour of ``slot``; the alert that fires."""
    now = dt.datetime.now(dt.UTC)
    tell_story(slot.pk, now)
    left = now - dt.timedelta(minutes=100)
    watched = WatchedSlot.objects.create(
        id=slot.pk + 1000, source=slot.source, name=OTHER, slot_type="logical", plugin="pgoutput",
        database="app", first_seen_at=left, last_seen_at=now, inactive_since=left,
        facts={"active": False, "wal_status": "extended", "restart_lsn": "41/8C3310A0",
               "confirmed_flush_lsn": "41/8C3351E8", "retained_wal_bytes": 32 * GB,
               "unconfirmed_wal_bytes": 32 * GB},
    )  # fmt: skip
    ensure()
    fires, over = (
        Alert.objects.create(
            rule=rule, subject=f"slot:{watched.pk}", source=slot.source, slot=watched,
            state="cleared" if cleared else "firing", began_at=left, fired_at=left,
            cleared_at=cleared, value_fired=301, value_worst=6000, value_last=6000,
            message=f"{slot.source.name}/{OTHER} has had no consumer for 5 min.",
            rule_was={"name": rule.name, "severity": "now", "threshold": 300.0},
            detail={"name": f"{slot.source.name}/{OTHER}", "inactive_since": left.isoformat()},
        )
        for rule, cleared in (
            (AlertRule.objects.get(kind="slot_inactive"), None),
            (AlertRule.objects.filter(kind="lag")[0], now),
        )
    )  # fmt: skip
    webhook = Webhook.objects.create(name="pager", sealed_url="-", host="pager.example.org")
    for event, problem in (("fired", ""), ("cleared", "The server answered 503.")):
        Delivery.objects.create(
            webhook=webhook, alert=over, event=event, attempts=1, problem=problem,
            delivered_at=None if problem else now,
        )  # fmt: skip
    return fires
