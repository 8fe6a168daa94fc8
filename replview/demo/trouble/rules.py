"""The demo's own alert rules, which are on while their trouble is, and a while longer.

Those that come with replview wait for minutes. The shop itself has transactions that stay open for
a minute: with rules this strict always on, it would never be quiet.
"""

import datetime as dt
from collections.abc import Iterable
from typing import Any

from django.utils import timezone

from replview.demo.trouble.place import SOURCE_NAME, Trouble
from replview.store.models import AlertRule, WatchedSlot

MAKER = "the demo"
#: So long the rules stay on after their trouble's end: its alerts are to be cleared by that end.
STAY_SECONDS = 60.0


def ensure_rules(troubles: Iterable[Trouble]) -> None:
    """Every rule of a trouble is there, and off."""
    for trouble in troubles:
        for values in trouble.rules:
            if "slot" not in values:
                _ensure(values, {})
    AlertRule.objects.filter(name__startswith="demo: ", enabled=True).update(enabled=False)


def switch_on(trouble: Trouble) -> None:
    """The trouble begins: its rules look."""
    for values in trouble.rules:
        fields: dict[str, Any] = {}
        if "slot" in values:
            found = WatchedSlot.objects.filter(source__name=SOURCE_NAME, name=values["slot"])
            watched = found.first()
            if watched is None:  # not looked at yet: there is no rule for what is not known
                continue
            fields["slot"] = watched
        rule = _ensure(values, fields)
        if not rule.enabled:
            rule.enabled = True
            rule.save(update_fields=["enabled"])


def switch_off(trouble: Trouble) -> None:
    """Enough time has passed since its end."""
    names = [values["name"] for values in trouble.rules]
    AlertRule.objects.filter(name__in=names, enabled=True).update(enabled=False)


def is_due(ended_at: dt.datetime) -> bool:
    """Whether the rules of a trouble that ended then are to be switched off."""
    return (timezone.now() - ended_at).total_seconds() > STAY_SECONDS


def _ensure(values: dict[str, Any], fields: dict[str, Any]) -> AlertRule:
    """One rule by its name; what somebody changed of it stays."""
    made = {name: value for name, value in values.items() if name not in ("name", "slot")}
    made |= {"enabled": False, "changed_by": MAKER}
    rule, _ = AlertRule.objects.get_or_create(name=values["name"], **fields, defaults=made)
    return rule
