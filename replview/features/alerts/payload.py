"""What is sent to a webhook: generic JSON, or what Slack understands."""

from typing import Any

import orjson

from replview.features.alerts.rules import outbox
from replview.features.alerts.rules.kinds import KINDS
from replview.store.models import Alert, Delivery, Webhook


def body_of(delivery: Delivery) -> bytes:
    """The body of one delivery, the same however often it is tried."""
    if delivery.webhook.format == Webhook.Format.SLACK:
        return orjson.dumps({"text": _slack_text(delivery)})
    told: dict[str, Any] = {
        "version": 1,
        "delivery": id_of(delivery),
        "event": delivery.event,
        "at": delivery.created_at,
        "message": sentence_of(delivery),
        "alert": None if delivery.alert is None else _alert(delivery.alert),
    }
    return orjson.dumps(told, option=orjson.OPT_UTC_Z)


def id_of(delivery: Delivery) -> str:
    """Names a delivery: whoever gets the same twice can tell."""
    return f"replview-{delivery.pk}-{int(delivery.created_at.timestamp() * 1000)}"


def sentence_of(delivery: Delivery) -> str:
    """What is said of it."""
    alert = delivery.alert
    if alert is None:
        return "A test message from replview: this webhook works."
    return outbox.cleared_sentence(alert) if delivery.event == outbox.CLEARED else alert.message


def _alert(alert: Alert) -> dict[str, Any]:
    was = alert.rule_was
    kind = KINDS.get(str(was.get("kind")))
    return {
        "id": alert.pk,
        "rule": was.get("name"),
        "kind": was.get("kind"),
        "severity": was.get("severity"),
        "state": alert.state,
        "subject": alert.detail.get("name"),
        "source": alert.source.name if alert.source else None,
        "slot": alert.slot.name if alert.slot else None,
        "unit": kind.unit if kind else None,
        "threshold": was.get("threshold"),
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
    was = delivery.alert.rule_was
    if delivery.event == outbox.CLEARED:
        return f":white_check_mark: {text}"
    if was.get("severity") == "now":
        return f":rotating_light: *Needs you now*: {text}"
    return f":warning: *Needs a look*: {text}"
