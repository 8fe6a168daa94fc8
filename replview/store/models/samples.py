"""What was seen of a slot over time: its log and its samples."""

from django.db import models
from django.utils import timezone

from replview.store.fields import LSNField


class SlotEvent(models.Model):
    """A line of a slot's log: connected, disconnected, schema changed, gap, …"""

    slot = models.ForeignKey("Slot", on_delete=models.CASCADE, related_name="events")
    incarnation = models.ForeignKey("SlotIncarnation", null=True, on_delete=models.CASCADE)
    at = models.DateTimeField(default=timezone.now)
    #: ``connected``, ``disconnected``, ``schema``, ``gap``, ``problem``, ``stopped`` …
    kind = models.TextField()
    #: One plain sentence; never a value of the source.
    message = models.TextField()
    detail = models.JSONField(default=dict)
    lsn = LSNField(null=True)
    #: Where in the order of history it stands: after this commit_seq.
    after_commit_seq = models.BigIntegerField(default=0)

    class Meta:
        db_table = "slot_event"
        indexes = [models.Index(fields=["slot", "at"], name="slot_event_by_time")]


class SlotSample(models.Model):
    """One slot at one moment, with everything the server told; None is unknown, never zero."""

    pk = models.CompositePrimaryKey("slot_id", "sampled_at")
    slot_id = models.BigIntegerField()
    sampled_at = models.DateTimeField()
    current_lsn = LSNField(null=True)
    restart_lsn = LSNField(null=True)
    confirmed_flush_lsn = LSNField(null=True)
    retained_wal_bytes = models.BigIntegerField(null=True)
    unconfirmed_wal_bytes = models.BigIntegerField(null=True)
    safe_wal_bytes = models.BigIntegerField(null=True)
    wal_status = models.TextField(null=True)
    active = models.BooleanField(null=True)
    #: Totals of our record at that moment, from which rates are drawn.
    transactions_stored = models.BigIntegerField(null=True)
    changes_stored = models.BigIntegerField(null=True)
    #: All further columns the server's version has, as it spells them.
    detail = models.JSONField(default=dict)

    class Meta:
        db_table = "slot_sample"
        managed = False
