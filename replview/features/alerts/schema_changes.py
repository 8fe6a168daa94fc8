"""Schema changes as alerts: from the lines that receivers write into their slots' logs.

One alert a table stays open until somebody has seen it, or its table has not changed for a while;
further changes meanwhile count on.
"""

import datetime as dt
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from replview.store.models import Alert, AlertRule, Relation, Slot, SlotEvent, WatchedSlot
from replview.text.formats import age_words

#: How far back lines are looked at: an evaluator that was away for longer tells of no older ones.
LOOK_BACK = dt.timedelta(hours=1)
_LINES_AT_ONCE = 2000
#: A schema change is an event: this long after a table's last one its alert is over.
RESTS_AFTER = dt.timedelta(minutes=10)


def schema_changes(
    rule: AlertRule, overridden: set[int], now: dt.datetime
) -> tuple[list[Alert], list[Alert]]:
    """Alerts that begin (not yet saved), and open ones that count on."""
    lines = _new_lines(rule, now)
    if not lines:
        return [], []
    relations = Relation.objects.select_related("slot__source").in_bulk(
        {line.detail["relation_id"] for line in lines}
    )
    watched = WatchedSlot.objects.filter(slot_id__in={line.slot_id for line in lines})
    ids = {row.slot_id: row.pk for row in watched}
    open_alerts = {
        alert.subject: alert for alert in Alert.objects.filter(rule=rule, state=Alert.State.FIRING)
    }
    begun: dict[str, Alert] = {}
    further: dict[str, Alert] = {}
    for line in lines:
        relation, slot_id = relations.get(line.detail["relation_id"]), ids.get(line.slot_id)
        if relation is None or slot_id in overridden or not matches(rule.tables, str(relation)):
            continue
        subject = f"relation:{relation.pk}"
        known = open_alerts.get(subject)
        alert = known or begun.setdefault(subject, _new_alert(rule, relation, slot_id, line))
        alert.value_last = alert.value_worst = (alert.value_last or 0) + 1
        alert.detail |= {"event": line.pk, "version": line.detail.get("version_id")}
        alert.message, alert.over_since = line.message, line.at
        if known:
            further[subject] = alert
    return list(begun.values()), list(further.values())


def end_rested(alerts: Iterable[Alert], now: dt.datetime) -> list[Alert]:
    """End those whose table has not changed for ``RESTS_AFTER``; returns them, not yet saved."""
    ended = [one for one in alerts if now - (one.over_since or one.began_at) >= RESTS_AFTER]
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
    """Whether ``schema.table`` is one of these patterns; none: every table."""
    return not tables or any(fnmatchcase(name, pattern) for pattern in tables)


def _new_lines(rule: AlertRule, now: dt.datetime) -> list[SlotEvent]:
    """Lines written since the rule was made that no alert of it has told yet, oldest first."""
    since = max(now - LOOK_BACK, rule.created_at)
    # Naming the slots lets the log's index (slot, time) find the lines.
    slots = list(Slot.objects.values_list("pk", flat=True))
    lines = SlotEvent.objects.filter(
        slot_id__in=slots, kind="schema", at__gte=since, at__lte=now
    ).order_by("-at", "-pk")[:_LINES_AT_ONCE]
    found = [line for line in lines if isinstance(line.detail.get("relation_id"), int)]
    if not found:
        return []
    latest: dict[int, int] = {}
    subjects = {f"relation:{line.detail['relation_id']}" for line in found}
    alerts = Alert.objects.filter(rule=rule, subject__in=subjects)
    for detail in alerts.values_list("detail", flat=True):
        relation = detail.get("relation", 0)
        latest[relation] = max(latest.get(relation, 0), detail.get("event", 0))
    found.sort(key=lambda line: line.pk)
    return [line for line in found if line.pk > latest.get(line.detail["relation_id"], 0)]
