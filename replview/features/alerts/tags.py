"""Template tags of alerts: the overview's strip, and the permission to change a rule."""

from dataclasses import dataclass
from typing import Any

from django import template
from django.db.models import Count, Q
from django.utils import timezone

from replview.features.alerts.lines import AlertLine, out_of_reach
from replview.store.models import Alert, AlertRule
from replview.ui.templatetags.replview import disabled, lacking

register = template.Library()

_ALERTS_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsStrip:
    """The alerts that the overview lists."""

    #: Firing alerts, worst first, then those that were cleared today.
    lines: list[AlertLine]
    #: Numbers of firing alerts and of those cleared today, whether listed or not.
    firing: int
    over: int


@register.inclusion_tag("alerts/_strip.html")
def alerts_strip() -> dict[str, AlertsStrip]:
    """Render ``{% alerts_strip %}``: firing alerts, worst first, then today's cleared ones."""
    return {"strip": read_alerts_strip()}


def read_alerts_strip() -> AlertsStrip:
    """Read the alerts of the strip with two queries."""
    now = timezone.now()
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    over = Q(state=Alert.State.CLEARED, fired_at__isnull=False, cleared_at__gte=today)
    firing = Q(state=Alert.State.FIRING)
    counts = Alert.objects.filter(firing | over).aggregate(
        firing=Count("id", filter=firing), over=Count("id", filter=over)
    )
    rows = Alert.objects.select_related("rule", "source", "slot").filter(firing | over)
    # The texts sort as wanted: firing before cleared, now before look; then the newest first.
    alerts = rows.order_by("-state", "-rule_was__severity", "-fired_at")[:_ALERTS_SHOWN]
    return AlertsStrip(lines=[AlertLine(alert, now) for alert in alerts], **counts)


@register.simple_tag(takes_context=True)
def needs_rule(context: dict[str, Any], rule: AlertRule) -> str:
    """Return attributes that disable a button if the account may not change the rule."""
    role = lacking(context, "alert-rule-change", "POST")
    reason = out_of_reach(rule) if role is None else f"needs the role {role.word}"
    return disabled(reason) if reason else ""
