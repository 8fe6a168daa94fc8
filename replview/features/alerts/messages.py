"""The texts of alerts: the sentence, the line in the slot's log, and the webhook's message.

They contain the alert's numbers, but never a value of the source's tables.
"""

import datetime as dt
from typing import Any

import orjson

from replview.features.alerts.amounts import Unit, amount_words
from replview.features.alerts.kinds import KINDS, kind_of
from replview.health.conditions import BY_IDLE, BY_SERVER
from replview.store.models import Alert, AlertRule, Delivery, Slot, Webhook
from replview.store.receiver_workers import SLOTS_PER_WORKER
from replview.store.slot_log import add_line, after_seq

_K = AlertRule.Kind
_LOSS_REASONS = {
    "wal_removed": "the source removed WAL that it still needed",
    # The server has not reported its reason yet.
    "lost": "the source removed WAL that it still needed",
    "rows_removed": "rows that it still needed were vacuumed away",
    "wal_level_insufficient": "wal_level is no longer high enough",
    "idle_timeout": "nobody read it for longer than idle_replication_slot_timeout",
    "conflicting": "it conflicted with recovery on the standby",
    "gone": "it is no longer on the source",
}
FIRED, CLEARED, TEST = "fired", "cleared", "test"


def fired_message(rule: AlertRule, name: str, value: float | None, detail: dict[str, Any]) -> str:
    """Return the sentence for an alert that fires."""
    amount = amount_words(value, kind_of(rule).unit)
    reason = str(detail.get("reason") or "")
    return {
        _K.RETAINED_WAL: f"{name} retains {amount} of WAL, and nothing limits it.",
        _K.RETAINED_SHARE: f"{name} retains {amount} of what it may"
        f"{_sizes_text(detail, 'retained_wal_bytes', 'limit_bytes')}.",
        _K.TIME_TO_LOSS: f"{name} {_loss_text(value, amount, detail)}.",
        _K.LAG: f"{name} lags by {amount}.",
        _K.RECEIVER_DOWN: f"{name} has had no working receiver for {amount}{_down_reason(detail)}.",
        _K.SLOT_LOST: f"{name} is lost: "
        f"{_LOSS_REASONS.get(reason, reason or 'the server does not say why')}.",
        _K.SLOT_INACTIVE: f"{name} has had no consumer for {amount}.",
        _K.PREPARED_AGE: f"A prepared transaction on {name} has been open for {amount}.",
        _K.LONG_TRANSACTION: f"A transaction on {name} has been running for {amount}.",
        _K.SOURCE_UNREACHABLE: f"{name} has not answered for {amount}{_problem_text(detail)}.",
        _K.POISON_CHANGE: f"{name} is stopped by a change that could not be stored.",
        _K.STORE_SIZE: f"{name} has used {amount} of its budget"
        f"{_sizes_text(detail, 'store_bytes', 'budget_bytes')}.",
        _K.UNSAFE_FAILOVER: f"A failover of {name} is not safe: synchronized_standby_slots is "
        "empty.",
        _K.PUBLISHED_TABLES: f"{name}: {detail.get('lapse')}",
    }[_K(rule.kind)]


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


def _sizes_text(detail: dict[str, Any], part: str, whole: str) -> str:
    if detail.get(part) is None or detail.get(whole) is None:
        return ""
    sizes = [amount_words(detail[key], Unit.BYTES) for key in (part, whole)]
    return f" ({sizes[0]} of {sizes[1]})"


def _growth_text(detail: dict[str, Any]) -> str:
    pace = detail.get("growth_bytes_per_second")
    return f": retained WAL grows by {amount_words(pace, Unit.BYTES)}/s" if pace else ""


def _loss_text(value: float | None, amount: str, detail: dict[str, Any]) -> str:
    """Return the words that say when and why a slot will be lost."""
    lost_by = detail.get("lost_by")
    if lost_by == BY_IDLE:
        timeout = amount_words(detail.get("idle_timeout_seconds"), Unit.SECONDS)
        cause = f": it has no consumer, and {BY_IDLE} is {timeout}"
    else:
        cause = _growth_text(detail)
    if value == 0 and lost_by in (BY_IDLE, BY_SERVER):
        return f"is lost at the source's next checkpoint{cause}"
    return f"will be lost in about {amount}{_span_text(detail)}{cause}"


def _span_text(detail: dict[str, Any]) -> str:
    return f" ({detail['span']})" if detail.get("span") else ""


def _problem_text(detail: dict[str, Any]) -> str:
    problem = str(detail.get("problem") or "").replace("_", " ")
    return f" ({problem})" if problem else ""


def _down_reason(detail: dict[str, Any]) -> str:
    """Return why the slot has no receiver: all workers are full, or the slot's problem."""
    if not detail.get("full_workers"):
        return _problem_text(detail)
    return f": every worker has its {SLOTS_PER_WORKER} slots; add a worker"


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
