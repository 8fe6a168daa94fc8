"""The alert kind *schema change*, from the lines that receivers write into their slots' logs.

A table has one open alert at most. It stays open until a user marks it as seen, or until the table
has not changed for a while; further changes meanwhile are counted.
"""

import datetime as dt
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from django import forms

from replview.features.alerts.kinds.base import BuiltInRule, EventKind
from replview.features.alerts.measured import Episode
from replview.store.models import Alert, AlertRule, Relation, Slot, SlotEvent, WatchedSlot
from replview.text.formats import age_words

#: Age of the oldest log line that is read; older changes are not reported after an outage.
LOOK_BACK = dt.timedelta(hours=1)
_LINES_LIMIT = 2000
#: Time after a table's last schema change at which its alert ends.
RESTS_AFTER = dt.timedelta(minutes=10)
_EPISODES_LIMIT = 500
_PATTERNS_LIMIT = 200
_PATTERN_LENGTH_LIMIT = 130


class TablePatternsField(forms.CharField):
    """A form field for patterns of tables, one a line or separated by commas."""

    def prepare_value(self, value: list[str] | str | None) -> str | None:
        """Return the patterns as text, one a line."""
        return "\n".join(value) if isinstance(value, list) else value

    def clean(self, value: str | None) -> list[str]:
        """Return the patterns. Raises ``ValidationError``."""
        names = super().clean(value).replace(",", "\n").split("\n")
        tables = list(dict.fromkeys(name.strip() for name in names if name.strip()))
        if len(tables) > _PATTERNS_LIMIT or any(
            len(name) > _PATTERN_LENGTH_LIMIT for name in tables
        ):
            raise forms.ValidationError(f"At most {_PATTERNS_LIMIT} patterns")
        if any("." not in name and "*" not in name for name in tables):
            raise forms.ValidationError("Write schema.table; * stands for any characters")
        return tables


class SchemaChange(EventKind):
    """A published table has another shape."""

    key = "schema_change"
    word = "Schema change"
    about = (
        "A published table came with another shape. Cleared once seen, or ten minutes after "
        "the last."
    )
    remedy = "Compare the two versions, then mark it as seen."
    built_in = (BuiltInRule(key="schema", name="Schema change", severity=AlertRule.Severity.LOOK),)
    hidden_details = frozenset({"relation", "event", "version"})

    def form_fields(self) -> dict[str, forms.Field]:
        """Return the fields of every event, and the tables whose changes count."""
        return {**super().form_fields(), "tables": TablePatternsField(required=False)}

    def read_events(
        self, rule: AlertRule, overridden: set[int], now: dt.datetime
    ) -> tuple[list[Alert], list[Alert]]:
        """Return alerts of tables that changed, and open ones that count further changes."""
        lines = _new_lines(rule, now)
        if not lines:
            return [], []
        relations = Relation.objects.select_related("slot__source").in_bulk(
            {line.detail["relation_id"] for line in lines}
        )
        watched_slots = WatchedSlot.objects.filter(slot_id__in={line.slot_id for line in lines})
        watched_ids = {watched.slot_id: watched.pk for watched in watched_slots}
        firing = Alert.objects.filter(rule=rule, state=Alert.State.FIRING)
        open_alerts = {alert.subject: alert for alert in firing}
        begun: dict[str, Alert] = {}
        further: dict[str, Alert] = {}
        for line in lines:
            relation = relations.get(line.detail["relation_id"])
            slot_id = watched_ids.get(line.slot_id)
            if relation is None or slot_id in overridden:
                continue
            if not _matches(rule.tables, str(relation)):
                continue
            subject = f"relation:{relation.pk}"
            open_alert = open_alerts.get(subject)
            alert = open_alert or begun.setdefault(
                subject, _new_alert(rule, relation, slot_id, line)
            )
            alert.value_last = alert.value_worst = (alert.value_last or 0) + 1
            alert.detail |= {"event": line.pk, "version": line.detail.get("version_id")}
            alert.message, alert.over_since = line.message, line.at
            if open_alert:
                further[subject] = alert
        return list(begun.values()), list(further.values())

    def end_rested(self, alerts: Iterable[Alert], now: dt.datetime) -> list[Alert]:
        """End alerts whose table has not changed for ``RESTS_AFTER``; return them unsaved."""
        ended = [
            alert for alert in alerts if now - (alert.over_since or alert.began_at) >= RESTS_AFTER
        ]
        for alert in ended:
            alert.state, alert.cleared_at = Alert.State.CLEARED, now
            alert.detail["over_because"] = f"the table has not changed for {age_words(RESTS_AFTER)}"
        return ended

    def past_episodes(
        self, rule: AlertRule, since: dt.datetime, until: dt.datetime
    ) -> list[Episode]:
        """Return the schema changes that the slots' logs contain, newest first."""
        events = SlotEvent.objects.filter(
            kind="schema", at__gt=since, at__lte=until, slot__isnull=False
        ).order_by("-at")[:_EPISODES_LIMIT]
        relation_ids = {event.detail.get("relation_id") for event in events}
        relation_ids = {relation_id for relation_id in relation_ids if isinstance(relation_id, int)}
        relations = Relation.objects.select_related("slot__source").in_bulk(relation_ids)
        episodes = []
        for event in events:
            relation = relations.get(event.detail.get("relation_id"))
            if relation is not None and _matches(rule.tables, str(relation)):
                name = f"{relation} of {relation.slot}"
                episodes.append(
                    Episode(name=name, fired_at=event.at, cleared_at=event.at, worst=None)
                )
        return episodes


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


def _matches(tables: Collection[str], name: str) -> bool:
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
