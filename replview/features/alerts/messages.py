"""The texts of alerts: how one ended, the line in the slot's log, and the webhook's message.

They contain the alert's numbers, but never a value of the source's tables.
"""

import datetime as dt
from typing import Any

import orjson

from replview.features.alerts.amounts import Unit, amount_words
from replview.features.alerts.kinds import KINDS, kind_of
from replview.store.models import Alert, Delivery, Slot, Webhook
from replview.store.slot_log import add_line, after_seq

FIRED, CLEARED, TEST = "fired", "cleared", "test"


def cleared_sentence(alert: Alert) -> str:
    """Return the sentence for a cleared alert: its worst value, and the reason or the duration."""
    began, ended = alert.fired_at or alert.began_at, alert.cleared_at
    seconds = (ended - began).total_seconds() if ended is not None else None
    reason = alert.detail.get("over_because")
    end_text = f"because {reason}" if reason else f"after {amount_words(seconds, Unit.SECONDS)}"
    kind = kind_of(alert.rule)
    name = str(alert.rule_was.get("name") or alert.rule.name)
    worst = ""
    if kind.unit != Unit.YES_NO and alert.value_worst is not None:
        worst = f", at worst {amount_words(alert.value_worst, kind.unit)}"
    subject = alert.detail.get("name", "")
    return f"{name}, {subject}: over {end_text}{worst}."


def announce(alert: Alert, now: dt.datetime) -> None:
    """Queue deliveries for an alert that fired or was cleared, and log it at its slot."""
    event = CLEARED if alert.state == Alert.State.CLEARED else FIRED
    severity = alert.rule_was.get("severity")
    Delivery.objects.bulk_create(
        Delivery(webhook=webhook, alert=alert, event=event, created_at=now, next_try_at=now)
        for webhook in Webhook.objects.filter(enabled=True)
        if not webhook.severities or severity in webhook.severities
    )
    _log_at_slot(alert, event, now)


def _log_at_slot(alert: Alert, event: str, now: dt.datetime) -> None:
    if alert.slot_id is None:
        return
    # A slot that replview receives has the same id as its watched slot.
    slot = Slot.objects.filter(pk=alert.slot_id).select_related("incarnation").first()
    if slot is None:
        return
    fired = event == FIRED
    message = alert.message if fired else cleared_sentence(alert)
    detail = {"alert": alert.pk, "rule": alert.rule_was.get("name")}
    add_line(slot, "alert" if fired else "alert_cleared", message, at=now, detail=detail,
             after_commit_seq=after_seq(slot))  # fmt: skip


def body_of(delivery: Delivery) -> bytes:
    """Return the body of a delivery, which is the same at each attempt."""
    if delivery.webhook.format == Webhook.Format.SLACK:
        return orjson.dumps({"text": _slack_text(delivery)})
    message: dict[str, Any] = {
        "version": 1,
        "delivery": id_of(delivery),
        "event": delivery.event,
        "at": delivery.created_at,
        "message": sentence_of(delivery),
        "alert": None if delivery.alert is None else _alert_json(delivery.alert),
    }
    return orjson.dumps(message, option=orjson.OPT_UTC_Z)


def id_of(delivery: Delivery) -> str:
    """Return the delivery's id, by which a receiver can recognise a repeated delivery."""
    return f"replview-{delivery.pk}-{int(delivery.created_at.timestamp() * 1000)}"


def sentence_of(delivery: Delivery) -> str:
    """Return the sentence that the delivery sends."""
    alert = delivery.alert
    if alert is None:
        return "A test message from replview: this webhook works."
    return cleared_sentence(alert) if delivery.event == CLEARED else alert.message


def _alert_json(alert: Alert) -> dict[str, object]:
    rule = alert.rule_was
    kind = KINDS.get(str(rule.get("kind")))
    return {
        "id": alert.pk,
        "rule": rule.get("name"),
        "kind": rule.get("kind"),
        "severity": rule.get("severity"),
        "state": alert.state,
        "subject": alert.detail.get("name"),
        "source": alert.source.name if alert.source else None,
        "slot": alert.slot.name if alert.slot else None,
        "unit": kind.unit if kind else None,
        "threshold": rule.get("threshold"),
        "value_fired": alert.value_fired,
        "value_worst": alert.value_worst,
        "value_last": alert.value_last,
        "began_at": alert.began_at,
        "fired_at": alert.fired_at,
        "cleared_at": alert.cleared_at,
    }


def _slack_text(delivery: Delivery) -> str:
    text = sentence_of(delivery)
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    if delivery.alert is None:
        return text
    rule = delivery.alert.rule_was
    if delivery.event == CLEARED:
        return f":white_check_mark: {text}"
    if rule.get("severity") == "now":
        return f":rotating_light: *Needs you now*: {text}"
    return f":warning: *Needs a look*: {text}"
