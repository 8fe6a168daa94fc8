"""What was seen of a slot over time: its log and its samples."""

from django.db import models
from django.utils import timezone

from replview.store.fields import LSNField
from replview.store.models.health import SampledValues
from replview.store.models.seen import Seen, SeenOfSlot


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

    objects = SeenOfSlot()

    class Meta:
        db_table = "slot_event"
        indexes = [models.Index(fields=["slot", "at"], name="slot_event_by_time")]


class SlotSample(SampledValues):
    """One slot at one moment, with everything the server told; None is unknown, never zero."""

    #: ``slot_id`` is a ``WatchedSlot.pk``, which of replview's own slots is ``Slot.pk``.
    pk = models.CompositePrimaryKey("slot_id", "sampled_at")
    #: All further columns the server's version has, as it spells them.
    detail = models.JSONField(default=dict)

    class Meta:
        db_table = "slot_sample"
        managed = False


class SourceLook(models.Model):
    """What holds WAL and vacuum back on a source, as last looked at; None is unknown."""

    source = models.OneToOneField(
        "Source", on_delete=models.CASCADE, primary_key=True, related_name="look"
    )
    looked_at = models.DateTimeField()
    #: ``[{"gid", "xid", "prepared_at", "owner", "database"}]`` of pg_prepared_xacts, oldest first.
    prepared = models.JSONField(null=True)
    #: ``prepared`` was cut off here; None where it was not.
    prepared_limit = models.IntegerField(null=True)
    #: ``[{"pid", "database", "role", "application_name", "state", "xact_started_at", "xid",
    #: "backend_xmin_age"}]`` of pg_stat_activity, oldest first, bounded.
    running = models.JSONField(null=True)
    #: ``slots`` (``{slot name: {"restart_lsn", "catalog_xmin_age", "xmin_age", …}}``),
    #: ``standbys``, ``waiting``, ``next_xid`` and the settings that matter here; see
    #: ``features.sampling.sample``.
    holders = models.JSONField(null=True)

    class Meta:
        db_table = "source_look"


class SlotPeek(models.Model):
    """A look into a slot without moving it: asked for by a page or a command, done by a worker."""

    class State(models.TextChoices):
        """How far it is."""

        REQUESTED = "requested"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    source = models.ForeignKey("Source", on_delete=models.CASCADE, related_name="peeks")
    slot_name = models.TextField()
    #: What the plugin must be told: publications for pgoutput.
    options = models.JSONField(default=dict)
    max_changes = models.IntegerField()
    max_seconds = models.FloatField()
    requested_at = models.DateTimeField(default=timezone.now)
    requested_by = models.TextField(default="")
    state = models.CharField(max_length=10, choices=State, default=State.REQUESTED)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    #: What waits in the slot; see ``receiver.peeks.peek``.
    result = models.JSONField(null=True)
    problem_code = models.TextField(default="", blank=True)
    problem_cause = models.TextField(default="", blank=True)
    problem_remedy = models.TextField(default="", blank=True)

    objects = Seen()

    class Meta:
        db_table = "slot_peek"
        indexes = [
            models.Index(
                fields=["id"],
                name="slot_peek_waiting",
                condition=models.Q(state__in=["requested", "running"]),
            ),
            models.Index(fields=["source", "slot_name", "-id"], name="slot_peek_by_slot"),
        ]
