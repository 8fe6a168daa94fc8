"""Models of alert rules, their alerts, and the messages that were sent to webhooks."""

from typing import Any

from django.db import models
from django.db.models.fields.json import KT
from django.utils import timezone

from replview.store.fields import Table, index_where
from replview.store.models.samples import WatchedSlot, own_database
from replview.store.models.seen import M, SeenOfSlotOrNone, SeenOrNone, seen_sources


def _without_unseen_slots(rows: Any) -> Any:
    """Omit rows of other databases' slots, for an account that does not see every source."""
    if seen_sources() is None:
        return rows
    return rows.filter(models.Q(slot=None) | models.Q(slot__in=WatchedSlot.objects.all()))


class SeenRules(SeenOfSlotOrNone[M]):
    """Rules that the account sees: those of its sources' slots, and those of no slot."""

    def get_queryset(self) -> Any:
        """Return the rules, without those of slots in other databases."""
        return _without_unseen_slots(super().get_queryset())


class AlertRule(Table):
    """A condition at which an alert fires, and the time for which it must hold."""

    class Severity(models.TextChoices):
        """The urgency of an alert, in the words of ``health.states``."""

        NOW = "now"
        LOOK = "look"

    #: Key of the kind (``features.alerts.kinds``), which says what is measured, in which unit.
    kind = models.CharField(max_length=20)
    #: Name on pages and in messages.
    name = models.TextField()
    severity = models.CharField(max_length=4, choices=Severity, default=Severity.LOOK)
    #: Threshold in the kind's unit; None where the kind has none.
    threshold = models.FloatField(null=True)
    #: The alert is cleared only beyond this (hysteresis); None: at the threshold.
    clear_threshold = models.FloatField(null=True)
    #: Seconds for which the condition must hold before the alert fires, and be over before it is
    #: cleared.
    hold_seconds = models.FloatField(default=0)
    clear_seconds = models.FloatField(default=0)
    enabled = models.BooleanField(default=True)
    #: True for rules that come with replview: they may be changed and switched off, not deleted.
    built_in = models.BooleanField(default=False)
    #: Key of a built-in rule (``features.alerts.built_in``), which stays when the rule is changed.
    key = models.CharField(max_length=40, default="", blank=True)
    #: Slot that the rule applies to, and the rule that it overrides there; both None: all slots.
    slot = models.ForeignKey("WatchedSlot", null=True, on_delete=models.CASCADE)
    overrides = models.ForeignKey("self", null=True, on_delete=models.CASCADE)
    #: Tables whose schema changes count: ``schema.table`` patterns with ``*``; empty: every table.
    tables = models.JSONField(default=list, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    changed_at = models.DateTimeField(default=timezone.now)
    changed_by = models.TextField(default="", blank=True)

    objects = SeenRules()

    class Meta:
        ordering = ["id"]


class SeenAlerts(SeenOrNone[M]):
    """Alerts that the account sees."""

    def get_queryset(self) -> Any:
        """Return the alerts, without those of slots or transactions in other databases.

        An account that sees every source gets all of them.
        """
        rows = _without_unseen_slots(super().get_queryset())
        if seen_sources() is None:
            return rows
        in_own_database = models.Q(database=None) | models.Q(database=own_database())
        return rows.alias(database=KT("detail__database")).filter(in_own_database)


class Alert(Table):
    """A rule's condition on one subject, from the time it began to hold to the time it was over."""

    class State(models.TextChoices):
        #: The condition holds, but not yet for as long as the rule requires: no message was sent.
        PENDING = "pending"
        FIRING = "firing"
        CLEARED = "cleared"

    rule = models.ForeignKey(AlertRule, on_delete=models.CASCADE, related_name="alerts")
    #: ``slot:12``, ``source:3``, ``store``, ``relation:7@41`` …
    subject = models.TextField()
    source = models.ForeignKey("Source", null=True, on_delete=models.CASCADE)
    slot = models.ForeignKey("WatchedSlot", null=True, on_delete=models.CASCADE)
    state = models.CharField(max_length=8, choices=State, default=State.PENDING)
    #: Time since which the condition holds.
    began_at = models.DateTimeField()
    fired_at = models.DateTimeField(null=True)
    #: Time since which the condition is over, while the rule's ``clear_seconds`` run.
    over_since = models.DateTimeField(null=True)
    cleared_at = models.DateTimeField(null=True)
    #: One plain sentence, without a value of the source.
    message = models.TextField(default="")
    #: Measured values when it fired, at its worst, and last, in the kind's unit.
    value_fired = models.FloatField(null=True)
    value_worst = models.FloatField(null=True)
    value_last = models.FloatField(null=True)
    #: The rule at that time: threshold, severity, name …
    rule_was = models.JSONField(default=dict)
    #: Further values at that moment (wal_status, limit, gid …).
    detail = models.JSONField(default=dict)
    seen_at = models.DateTimeField(null=True)
    seen_by = models.TextField(default="", blank=True)

    objects = SeenAlerts()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "subject"],
                name="alert_once_open",
                condition=models.Q(state__in=["pending", "firing"]),
            )
        ]
        indexes = [
            models.Index(fields=["-fired_at"], name="alert_by_time"),
            models.Index(fields=["-cleared_at"], name="alert_by_end"),
            index_where("alert_open", "state", state__in=["pending", "firing"]),
        ]


class Webhook(Table):
    """A URL to which messages about alerts are sent."""

    class Format(models.TextChoices):
        JSON = "json"
        SLACK = "slack"

    name = models.CharField(max_length=100, unique=True)
    #: Encrypted, since such a URL is often a secret itself.
    sealed_url = models.TextField()
    #: Host of the URL, for pages and logs.
    host = models.TextField(default="")
    format = models.CharField(max_length=5, choices=Format, default=Format.JSON)
    #: Encrypted key that signs each message.
    sealed_secret = models.TextField(default="", blank=True)
    enabled = models.BooleanField(default=True)
    #: True when loopback, private and link-local addresses may be called.
    allow_private = models.BooleanField(default=False)
    #: Severities that are sent; empty: all.
    severities = models.JSONField(default=list, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    created_by = models.TextField(default="", blank=True)

    class Meta:
        ordering = ["name"]


class Delivery(Table):
    """One message to one webhook, which is retried with growing pauses until it arrives."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    #: Alert that the message is about; None: a test message.
    alert = models.ForeignKey(Alert, null=True, on_delete=models.CASCADE)
    #: ``fired``, ``cleared``, ``test``.
    event = models.TextField()
    created_at = models.DateTimeField(default=timezone.now)
    attempts = models.IntegerField(default=0)
    next_try_at = models.DateTimeField(null=True, default=timezone.now)
    delivered_at = models.DateTimeField(null=True)
    given_up_at = models.DateTimeField(null=True)
    #: Why the last attempt failed; never the text of the response.
    problem = models.TextField(default="", blank=True)
    status = models.IntegerField(null=True)

    class Meta:
        indexes = [
            index_where("delivery_waiting", "next_try_at", delivered_at=None, given_up_at=None)
        ]


class Setting(Table):
    """A setting of the whole instance, by its name; see ``store.instance_settings``."""

    name = models.CharField(max_length=60, primary_key=True)
    value = models.JSONField()
    changed_at = models.DateTimeField(default=timezone.now)
    changed_by = models.TextField(default="", blank=True)
