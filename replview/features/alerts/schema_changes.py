"""Alerts about schema changes, from the lines that receivers write into their slots' logs.

A table has one open alert at most. It stays open until a user marks it as seen, or until the table
has not changed for a while; further changes meanwhile are counted.
"""

import datetime as dt
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from replview.store.models import Alert, AlertRule, Relation, Slot, SlotEvent, WatchedSlot
from replview.text.formats import age_words

#: Age of the oldest log line that is read; older changes are not reported after an outage.
LOOK_BACK = dt.timedelta(hours=1)
_LINES_LIMIT = 2000
#: Time after a table's last schema change at which its alert ends.
RESTS_AFTER = dt.timedelta(minutes=10)


def schema_changes(
    rule: AlertRule, overridden: set[int], now: dt.datetime
) -> tuple[list[Alert], list[Alert]]:
    """Return new alerts, not yet saved, and open ones that count further changes."""
    lines = _new_lines(rule, now)
    if not lines:
        return [], []
    relations = Relation.objects.select_related("slot__source").in_bulk(
        {line.detail["relation_id"] for line in lines}
    )
    watched_slots = WatchedSlot.objects.filter(slot_id__in={line.slot_id for line in lines})
    watched_ids = {watched.slot_id: watched.pk for watched in watched_slots}
    open_alerts = {
        alert.subject: alert for alert in Alert.objects.filter(rule=rule, state=Alert.State.FIRING)
    }
    begun: dict[str, Alert] = {}
    further: dict[str, Alert] = {}
    for line in lines:
        relation, slot_id = relations.get(line.detail["relation_id"]), watched_ids.get(line.slot_id)
        if relation is None or slot_id in overridden or not matches(rule.tables, str(relation)):
            continue
        subject = f"relation:{relation.pk}"
        open_alert = open_alerts.get(subject)
        alert = open_alert or begun.setdefault(subject, _new_alert(rule, relation, slot_id, line))
        alert.value_last = alert.value_worst = (alert.value_last or 0) + 1
        alert.detail |= {"event": line.pk, "version": line.detail.get("version_id")}
        alert.message, alert.over_since = line.message, line.at
        if open_alert:
            further[subject] = alert
    return list(begun.values()), list(further.values())


def end_rested(alerts: Iterable[Alert], now: dt.datetime) -> list[Alert]:
    """End alerts whose table has not changed for ``RESTS_AFTER``; return them unsaved."""
    ended = [alert for alert in alerts if now - (alert.over_since or alert.began_at) >= RESTS_AFTER]
    for alert in ended:
        alert.state, alert.cleared_at = Alert.State.CLEARED, now
        alert.detail["over_because"] = f"the table has not changed for {age_words(RESTS_AFTER)}"
    return ended


def _new_alert(rule: AlertRule, relation: Relation, slot_id: int | None, line: SlotEvent) -> Alert:
    return Alert(
        rule=rule,
        subject=f"relation:{relation.pk}",
        source_id=relation.slot.source_id,
        slot_id=slot_id,
        state=Alert.State.FIRING,
        began_at=line.at,
        fired_at=line.at,
        value_fired=1,
        value_last=0,
        detail={"name": f"{relation} of {relation.slot}", "relation": relation.pk},
    )


def matches(tables: Collection[str], name: str) -> bool:
    """Return whether ``schema.table`` matches any pattern; no pattern matches every table."""
    return not tables or any(fnmatchcase(name, pattern) for pattern in tables)


def _new_lines(rule: AlertRule, now: dt.datetime) -> list[SlotEvent]:
    """Return the lines since the rule was created that no alert contains yet, oldest first."""
    since = max(now - LOOK_BACK, rule.created_at)
    # Name the slots, so that PostgreSQL can use the log's index on (slot, time).
    slots = list(Slot.objects.values_list("pk", flat=True))
    recent = SlotEvent.objects.filter(
        slot_id__in=slots, kind="schema", at__gte=since, at__lte=now
    ).order_by("-at", "-pk")[:_LINES_LIMIT]
    lines = [line for line in recent if isinstance(line.detail.get("relation_id"), int)]
    if not lines:
        return []
    last_events: dict[int, int] = {}
    subjects = {f"relation:{line.detail['relation_id']}" for line in lines}
    alerts = Alert.objects.filter(rule=rule, subject__in=subjects)
    for detail in alerts.values_list("detail", flat=True):
        relation = detail.get("relation", 0)
        last_events[relation] = max(last_events.get(relation, 0), detail.get("event", 0))
    lines.sort(key=lambda line: line.pk)
    return [line for line in lines if line.pk > last_events.get(line.detail["relation_id"], 0)]
