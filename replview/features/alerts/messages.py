"""One plain sentence about an alert, with its numbers; never a value of the source's tables."""

from typing import Any

from replview.features.alerts.rules.amounts import amount_words
from replview.features.alerts.rules.kinds import Unit, kind_of
from replview.store.models import Alert, AlertRule

_K = AlertRule.Kind
_LOST = {
    "wal_removed": "the source removed WAL that it still needed",
    "rows_removed": "rows that it still needed were vacuumed away",
    "wal_level_insufficient": "wal_level is no longer high enough",
    "idle_timeout": "nobody read it for longer than idle_replication_slot_timeout",
    "conflicting": "it conflicted with recovery on the standby",
    "gone": "it is no longer on the source",
}


def fired_message(rule: AlertRule, name: str, value: float | None, detail: dict[str, Any]) -> str:
    """What holds, in one sentence."""
    amount = amount_words(value, kind_of(rule).unit)
    return {
        _K.RETAINED_WAL: f"{name} retains {amount} of WAL, and nothing limits it.",
        _K.RETAINED_SHARE: _share(name, amount, detail),
        _K.TIME_TO_LOSS: f"{name} will be lost in about {amount}{_pace(detail)}.",
        _K.LAG: f"{name} lags by {amount}.",
        _K.RECEIVER_DOWN: f"{name} has had no working receiver for {amount}{_problem(detail)}.",
        _K.SLOT_LOST: f"{name} is lost: {_lost(detail)}.",
        _K.SLOT_INACTIVE: f"Nobody has read {name} for {amount}.",
        _K.PREPARED_AGE: f"A prepared transaction on {name} has been open for {amount}.",
        _K.LONG_TRANSACTION: f"A transaction on {name} has been running for {amount}.",
        _K.SOURCE_UNREACHABLE: f"{name} has not answered for {amount}{_problem(detail)}.",
        _K.POISON_CHANGE: f"{name} is stopped by a change that could not be stored.",
        _K.STORE_SIZE: f"{name} has used {amount} of its budget"
        f"{_of(detail, 'store_bytes', 'budget_bytes')}.",
        _K.UNSAFE_FAILOVER: f"A failover of {name} is not safe: synchronized_standby_slots is "
        "empty.",
    }[_K(rule.kind)]


def cleared_message(alert: Alert, *, why: str = "") -> str:
    """That it is over, how long it lasted, and its worst."""
    began, ended = alert.fired_at or alert.began_at, alert.cleared_at
    seconds = (ended - began).total_seconds() if ended is not None else None
    lasted = amount_words(seconds, Unit.SECONDS)
    kind = kind_of(alert.rule)
    name = str(alert.rule_was.get("name") or alert.rule.name)
    worst = ""
    if kind.unit != Unit.YES_NO and alert.value_worst is not None:
        worst = f", at worst {amount_words(alert.value_worst, kind.unit)}"
    what = alert.detail.get("name", "")
    return f"{name}, {what}: over {why or f'after {lasted}'}{worst}."


def _share(name: str, amount: str, detail: dict[str, Any]) -> str:
    return f"{name} retains {amount} of what it may" \
        f"{_of(detail, 'retained_wal_bytes', 'limit_bytes')}."  # fmt: skip


def _of(detail: dict[str, Any], part: str, whole: str) -> str:
    if detail.get(part) is None or detail.get(whole) is None:
        return ""
    sizes = [amount_words(detail[key], Unit.BYTES) for key in (part, whole)]
    return f" ({sizes[0]} of {sizes[1]})"


def _pace(detail: dict[str, Any]) -> str:
    pace = detail.get("growth_bytes_per_second")
    return f": retained WAL grows by {amount_words(pace, Unit.BYTES)}/s" if pace else ""


def _problem(detail: dict[str, Any]) -> str:
    problem = str(detail.get("problem") or "").replace("_", " ")
    return f" ({problem})" if problem else ""


def _lost(detail: dict[str, Any]) -> str:
    reason = str(detail.get("reason") or "")
    return _LOST.get(reason, reason or "the server does not say why")
