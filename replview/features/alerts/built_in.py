"""The built-in alert rules. They are on at first; rules that a user changed are not overwritten."""

from dataclasses import asdict
from typing import Any

from django.db import connection, transaction

from replview.features.alerts.kinds import KINDS
from replview.store.models import AlertRule, WatchedSlot

#: Key of the advisory lock under which rules are inserted.
INSERT_LOCK = 0x7265706C616C31


#: The fields of every built-in rule.
BUILT_IN: tuple[dict[str, Any], ...] = tuple(
    {**asdict(rule), "kind": kind.key} for kind in KINDS.values() for rule in kind.built_in
)
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
