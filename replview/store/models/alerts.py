"""Rules, what they found, and who was told."""

from typing import Any

from django.db import models
from django.db.models.fields.json import KT
from django.utils import timezone

from replview.store.fields import Table, index_where
from replview.store.models.samples import WatchedSlot, own_database
from replview.store.models.seen import M, SeenOfSlotOrNone, SeenOrNone, seen_sources


def _of_seen_slots(rows: Any) -> Any:
    """Without those of slots of other databases, for who does not see every source."""
    if seen_sources() is None:
        return rows
    return rows.filter(models.Q(slot=None) | models.Q(slot__in=WatchedSlot.objects.all()))


class SeenRules(SeenOfSlotOrNone[M]):
    def get_queryset(self) -> Any:
        return _of_seen_slots(super().get_queryset())


class AlertRule(Table):
    """The condition at which an alert fires, and for how long it must hold."""

    class Kind(models.TextChoices):
        """What is measured; the unit of ``threshold`` stands beside it."""

        RETAINED_WAL = "retained_wal"  # bytes
        RETAINED_SHARE = "retained_share"  # of the limit or the budget, 0 to 1
        TIME_TO_LOSS = "time_to_loss"  # seconds; fires below
        LAG = "lag"  # seconds
        RECEIVER_DOWN = "receiver_down"  # seconds without a heartbeat
        SLOT_LOST = "slot_lost"  # no threshold
        SLOT_INACTIVE = "slot_inactive"  # seconds
        PREPARED_AGE = "prepared_age"  # seconds
        LONG_TRANSACTION = "long_transaction"  # seconds
        SOURCE_UNREACHABLE = "source_unreachable"  # seconds
        SCHEMA_CHANGE = "schema_change"  # no threshold; an event, never cleared by itself
        POISON_CHANGE = "poison_change"  # no threshold
        STORE_SIZE = "store_size"  # of the store's budget, 0 to 1
        UNSAFE_FAILOVER = "unsafe_failover"  # no threshold
        PUBLISHED_TABLES = "published_tables"  # no threshold

    class Severity(models.TextChoices):
        """How urgent; the words of ``health.states``."""

        NOW = "now"
        LOOK = "look"

    kind = models.CharField(max_length=20, choices=Kind)
    #: As pages and messages call it.
    name = models.TextField()
    severity = models.CharField(max_length=4, choices=Severity, default=Severity.LOOK)
    #: In the kind's unit; None where it has none.
    threshold = models.FloatField(null=True)
    #: Cleared only beyond this (hysteresis); None: at the threshold.
    clear_threshold = models.FloatField(null=True)
    #: It must hold for so long before it fires, and be over for so long before it is cleared.
    hold_seconds = models.FloatField(default=0)
    clear_seconds = models.FloatField(default=0)
    enabled = models.BooleanField(default=True)
    #: Came with replview: may be changed and switched off, not deleted.
    built_in = models.BooleanField(default=False)
    #: Which of replview's own it is (``features.alerts.built_in``), however it was changed.
    key = models.CharField(max_length=40, default="", blank=True)
    #: Only for this slot, instead of the rule it overrides; both None: for all.
    slot = models.ForeignKey("WatchedSlot", null=True, on_delete=models.CASCADE)
    overrides = models.ForeignKey("self", null=True, on_delete=models.CASCADE)
    #: For schema changes: ``schema.table`` patterns with ``*``; empty: every table.
    tables = models.JSONField(default=list, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    changed_at = models.DateTimeField(default=timezone.now)
    changed_by = models.TextField(default="", blank=True)

    objects = SeenRules()

    class Meta:
        ordering = ["id"]


class SeenAlerts(SeenOrNone[M]):
    """Not of slots or transactions of other databases, for who does not see every source."""

    def get_queryset(self) -> Any:
        rows = _of_seen_slots(super().get_queryset())
        if seen_sources() is None:
            return rows
        own = models.Q(database=None) | models.Q(database=own_database())
        return rows.alias(database=KT("detail__database")).filter(own)


class Alert(Table):
    """A rule's condition on one subject, from when it began to hold until it was over."""

    class State(models.TextChoices):
        #: It holds, not yet for as long as the rule wants: nobody was told.
        PENDING = "pending"
        FIRING = "firing"
        CLEARED = "cleared"

    rule = models.ForeignKey(AlertRule, on_delete=models.CASCADE, related_name="alerts")
    #: ``slot:12``, ``source:3``, ``store``, ``relation:7@41`` …
    subject = models.TextField()
    source = models.ForeignKey("Source", null=True, on_delete=models.CASCADE)
    slot = models.ForeignKey("WatchedSlot", null=True, on_delete=models.CASCADE)
    state = models.CharField(max_length=8, choices=State, default=State.PENDING)
    #: Since when the condition holds.
    began_at = models.DateTimeField()
    fired_at = models.DateTimeField(null=True)
    #: Since when the condition is over, while the rule's ``clear_seconds`` run.
    over_since = models.DateTimeField(null=True)
    cleared_at = models.DateTimeField(null=True)
    #: One plain sentence; never a value of the source.
    message = models.TextField(default="")
    #: What was measured when it fired, at its worst, and last; in the kind's unit.
    value_fired = models.FloatField(null=True)
    value_worst = models.FloatField(null=True)
    value_last = models.FloatField(null=True)
    #: The rule as it was: threshold, severity, name …
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
    class Format(models.TextChoices):
        JSON = "json"
        SLACK = "slack"

    name = models.CharField(max_length=100, unique=True)
    #: Sealed: an address of this kind is often a secret itself.
    sealed_url = models.TextField()
    #: The host alone, for pages and logs.
    host = models.TextField(default="")
    format = models.CharField(max_length=5, choices=Format, default=Format.JSON)
    #: Sealed; signs what is sent.
    sealed_secret = models.TextField(default="", blank=True)
    enabled = models.BooleanField(default=True)
    #: Loopback, private and link-local addresses may be called.
    allow_private = models.BooleanField(default=False)
    #: Only these severities; empty: all.
    severities = models.JSONField(default=list, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    created_by = models.TextField(default="", blank=True)

    class Meta:
        ordering = ["name"]


class Delivery(Table):
    """One message to one webhook: tried again, with growing pauses, until it arrives."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    #: None: a test message.
    alert = models.ForeignKey(Alert, null=True, on_delete=models.CASCADE)
    #: ``fired``, ``cleared``, ``test``.
    event = models.TextField()
    created_at = models.DateTimeField(default=timezone.now)
    attempts = models.IntegerField(default=0)
    next_try_at = models.DateTimeField(null=True, default=timezone.now)
    delivered_at = models.DateTimeField(null=True)
    given_up_at = models.DateTimeField(null=True)
    #: Why the last try failed; never what the other side answered.
    problem = models.TextField(default="", blank=True)
    status = models.IntegerField(null=True)

    class Meta:
        indexes = [
            index_where("delivery_waiting", "next_try_at", delivered_at=None, given_up_at=None)
        ]


class Setting(Table):
    """A choice for the whole instance, by its name; see ``store.instance_settings``."""

    name = models.CharField(max_length=60, primary_key=True)
    value = models.JSONField()
    changed_at = models.DateTimeField(default=timezone.now)
    changed_by = models.TextField(default="", blank=True)
