"""What is left behind when an alert fires or is over: a line in the slot's log, and deliveries.

Both are written with the alert's state, so that neither is lost nor doubled.
"""

import datetime as dt

from replview.features.alerts.messages import cleared_message
from replview.store.models import Alert, Delivery, Slot, SlotEvent, Webhook

FIRED, CLEARED, TEST = "fired", "cleared", "test"


def tell(alert: Alert, now: dt.datetime) -> None:
    """Of an alert that has just fired or is just over."""
    event = CLEARED if alert.state == Alert.State.CLEARED else FIRED
    severity = alert.rule_was.get("severity")
    Delivery.objects.bulk_create(
        Delivery(webhook=webhook, alert=alert, event=event, created_at=now, next_try_at=now)
        for webhook in Webhook.objects.filter(enabled=True)
        if not webhook.severities or severity in webhook.severities
    )
    _log(alert, event, now)


def cleared_sentence(alert: Alert) -> str:
    """That it is over, and why where that is not its own end."""
    because = alert.detail.get("over_because")
    return cleared_message(alert, why=f"because {because}" if because else "")


def _log(alert: Alert, event: str, now: dt.datetime) -> None:
    """A line in the log of a slot of ours."""
    if alert.slot_id is None:
        return
    # A slot of ours has the number of its watched slot.
    slot = Slot.objects.filter(pk=alert.slot_id).select_related("incarnation").first()
    if slot is None:
        return
    SlotEvent.objects.create(
        slot=slot,
        incarnation=slot.incarnation,
        at=now,
        kind="alert" if event == FIRED else "alert_cleared",
        message=alert.message if event == FIRED else cleared_sentence(alert),
        detail={"alert": alert.pk, "rule": alert.rule_was.get("name")},
        after_commit_seq=slot.incarnation.commit_seq if slot.incarnation else 0,
    )
