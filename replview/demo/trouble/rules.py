"""This module manages the demo's own alert rules, which are on while their trouble lasts.

The rules that come with replview fire only after minutes. The shop itself has transactions that
stay open for a minute: rules as strict as these would always fire if they were always on.
"""

import datetime as dt
from collections.abc import Iterable
from typing import Any

from django.utils import timezone

from replview.demo.trouble.place import SOURCE_NAME, Trouble
from replview.store.models import AlertRule, WatchedSlot

MAKER = "the demo"
#: Seconds that rules stay on after the end of their trouble, so that it clears their alerts.
STAY_SECONDS = 60.0


def ensure_rules(troubles: Iterable[Trouble]) -> None:
    """Create the rules of the troubles where they are missing, and switch them all off."""
    for trouble in troubles:
        for values in trouble.rules:
            if "slot" not in values:
                _ensure(values, {})
    AlertRule.objects.filter(name__startswith="demo: ", enabled=True).update(enabled=False)


def switch_on(trouble: Trouble) -> None:
    """Switch on the rules of a trouble that starts."""
    for values in trouble.rules:
        fields: dict[str, Any] = {}
        if "slot" in values:
            slots = WatchedSlot.objects.filter(source__name=SOURCE_NAME, name=values["slot"])
            watched = slots.first()
            # A slot that was not sampled yet cannot have a rule.
            if watched is None:
                continue
            fields["slot"] = watched
        rule = _ensure(values, fields)
        if not rule.enabled:
            rule.enabled = True
            rule.save(update_fields=["enabled"])


def switch_off(trouble: Trouble) -> None:
    """Switch off the rules of a trouble that has been over for a while."""
    names = [values["name"] for values in trouble.rules]
    AlertRule.objects.filter(name__in=names, enabled=True).update(enabled=False)


def is_due(ended_at: dt.datetime) -> bool:
    """Return whether the rules of a trouble that ended at this time must be switched off."""
    return (timezone.now() - ended_at).total_seconds() > STAY_SECONDS


def _ensure(values: dict[str, Any], fields: dict[str, Any]) -> AlertRule:
    """Return the rule of this name, created if it is missing; changes by users are kept."""
    defaults = {name: value for name, value in values.items() if name not in ("name", "slot")}
    defaults |= {"enabled": False, "changed_by": MAKER}
    rule, _ = AlertRule.objects.get_or_create(name=values["name"], **fields, defaults=defaults)
    return rule
