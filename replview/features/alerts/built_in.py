"""The built-in alert rules. They are on at first; rules that a user changed are not overwritten."""

from typing import Any

from django.db import connection, transaction

from replview.store.models import AlertRule, WatchedSlot

_K = AlertRule.Kind
_NOW, _LOOK = AlertRule.Severity.NOW, AlertRule.Severity.LOOK
_MINUTE, _HOUR = 60.0, 3600.0
_GB = float(1 << 30)
#: A condition that can change with each sample must hold for more than one sample.
_STEADY = {"hold_seconds": 6.0, "clear_seconds": 6.0}
#: Key of the advisory lock under which rules are inserted.
INSERT_LOCK = 0x7265706C616C31


def _rule(
    key: str, name: str, kind: str, severity: str, threshold: float | None = None, **more: float
) -> dict[str, object]:
    return {
        "key": key, "name": name, "kind": kind, "severity": severity, "threshold": threshold, **more
    }  # fmt: skip


BUILT_IN: tuple[dict[str, Any], ...] = (
    _rule("slot_lost", "Slot lost", _K.SLOT_LOST, _NOW),
    _rule("loss_now", "Loss within an hour", _K.TIME_TO_LOSS, _NOW, _HOUR,
          clear_threshold=1.5 * _HOUR, **_STEADY),
    _rule("loss_look", "Loss within six hours", _K.TIME_TO_LOSS, _LOOK, 6 * _HOUR,
          clear_threshold=8 * _HOUR, **_STEADY),
    _rule("share_now", "Retained WAL near its limit", _K.RETAINED_SHARE, _NOW, 0.9,
          clear_threshold=0.85),
    _rule("share_look", "Retained WAL over half its limit", _K.RETAINED_SHARE, _LOOK, 0.5,
          clear_threshold=0.45),
    _rule("retained", "Much WAL, and no limit", _K.RETAINED_WAL, _LOOK, 10 * _GB,
          clear_threshold=9 * _GB),
    _rule("lag_look", "Lag over a minute", _K.LAG, _LOOK, _MINUTE,
          clear_threshold=30.0, clear_seconds=4.0),
    _rule("lag_now", "Lag over 15 minutes", _K.LAG, _NOW, 15 * _MINUTE,
          clear_threshold=10 * _MINUTE, clear_seconds=4.0),
    _rule("receiver_down", "Receiver down", _K.RECEIVER_DOWN, _NOW, 10.0, clear_seconds=2.0),
    _rule("inactive", "Slot inactive", _K.SLOT_INACTIVE, _LOOK, 5 * _MINUTE),
    _rule("prepared", "Prepared transaction open", _K.PREPARED_AGE, _LOOK, 5 * _MINUTE),
    _rule("long_transaction", "Long transaction", _K.LONG_TRANSACTION, _LOOK, 30 * _MINUTE),
    _rule("unreachable", "Source unreachable", _K.SOURCE_UNREACHABLE, _NOW, 30.0),
    _rule("schema", "Schema change", _K.SCHEMA_CHANGE, _LOOK),
    _rule("poison", "Poison change", _K.POISON_CHANGE, _NOW),
    _rule("store_size", "Store near its budget", _K.STORE_SIZE, _LOOK, 0.8, clear_threshold=0.75),
    _rule("failover", "Unsafe failover", _K.UNSAFE_FAILOVER, _LOOK),
    _rule("published", "Published tables changed", _K.PUBLISHED_TABLES, _LOOK),
)  # fmt: skip


KEYS = frozenset(str(values["key"]) for values in BUILT_IN)


def _existing_keys() -> set[str]:
    return set(AlertRule.objects.filter(key__in=KEYS).values_list("key", flat=True))


def own_rule(base: AlertRule, slot: WatchedSlot) -> AlertRule:
    """Return the slot's own rule in place of ``base``.

    If there is none, return an unsaved copy of ``base`` for the slot.
    """
    existing = AlertRule.objects.filter(overrides=base, slot=slot).first()
    if existing is not None:
        return existing
    own = AlertRule.objects.get(pk=base.pk)
    own.pk, own._state.adding = None, True
    own.overrides_id, own.slot = base.pk, slot
    own.built_in, own.key = False, ""
    return own


def ensure() -> None:
    """Insert the built-in rules that are missing.

    A rule is recognised by its key, so all its other fields may be changed. A lock keeps processes
    that start together from inserting a rule twice.
    """
    if len(_existing_keys()) == len(KEYS):
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [INSERT_LOCK])
        existing = _existing_keys()
        missing = [values for values in BUILT_IN if values["key"] not in existing]
        AlertRule.objects.bulk_create(AlertRule(built_in=True, **values) for values in missing)


def original(rule: AlertRule) -> dict[str, Any] | None:
    """Return the initial values of a built-in rule, or None for any other rule."""
    return next((values for values in BUILT_IN if values["key"] == rule.key), None)
