"""What regular looks at the sources saw: every slot and subscription, over time, and a slot's log.

Raw samples are kept for a day, a row a minute for a month, a row an hour for a year (settings);
see ``features.sampling.rollups``. None is unknown, never zero.
"""

from typing import Any

from django.db import models
from django.db.models.fields.json import KT
from django.utils import timezone

from replview.store.fields import LSNField, Table
from replview.store.models.seen import M, Seen, SeenOfSlot, seen_sources


def own_database() -> models.Subquery:
    """Of rows with a ``source_id``: the database that the source is."""
    looks = SourceLook.objects.filter(source_id=models.OuterRef("source_id"))
    return models.Subquery(looks.values_list(KT("holders__database"))[:1])


class SeenSlots(Seen[M]):
    """Of a server that others use, too: not the slots of other databases, for an account that does
    not see every source.
    """

    def get_queryset(self) -> Any:
        rows = super().get_queryset()
        if seen_sources() is None:
            return rows
        own = models.Q(database=None) | models.Q(database=own_database())
        return rows.filter(models.Q(slot__isnull=False) | own)


class WatchedSlot(Table):
    """A replication slot of a source as last seen: replview's or anybody's, logical or physical.
    ``id`` names its samples: ``Slot.pk``, or drawn from the same sequence until the slot is
    adopted.
    """

    id = models.BigIntegerField(primary_key=True)
    source = models.ForeignKey("Source", on_delete=models.CASCADE, related_name="watched_slots")
    name = models.TextField()
    #: replview's own; None: somebody else's.
    slot = models.OneToOneField("Slot", null=True, on_delete=models.CASCADE, related_name="watched")
    #: ``logical`` or ``physical``.
    slot_type = models.TextField(default="logical")
    plugin = models.TextField(null=True)
    database = models.TextField(null=True)
    temporary = models.BooleanField(null=True)
    first_seen_at = models.DateTimeField(default=timezone.now)
    last_seen_at = models.DateTimeField(default=timezone.now)
    #: The first look that no longer found it; None: it is there.
    gone_at = models.DateTimeField(null=True)
    #: None: active when last seen. From 17 on the server's ``inactive_since``, else our looks'.
    inactive_since = models.DateTimeField(null=True)
    #: The whole row of the last look, as ``SlotSample.detail`` holds it, with the sample's columns.
    facts = models.JSONField(default=dict)

    objects = SeenSlots()

    class Meta:
        ordering = ["source_id", "name"]
        constraints = [
            models.UniqueConstraint(fields=["source", "name"], name="watched_slot_by_name")
        ]

    def __str__(self) -> str:
        return f"{self.source.name}/{self.name}"


class SampledValues(Table):
    """What a sample tells of a slot in columns, or a period of samples: the highest of what is bad
    when high, the lowest of what is bad when low, the last of positions and totals.
    """

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
    bytes_stored = models.BigIntegerField(null=True)
    #: Of the walsender that reads the slot, from pg_stat_replication.
    write_lag_seconds = models.FloatField(null=True)
    flush_lag_seconds = models.FloatField(null=True)
    replay_lag_seconds = models.FloatField(null=True)
    #: From the commit on the source to stored, of the transactions stored since the last sample.
    stored_after_p50_seconds = models.FloatField(null=True)
    stored_after_p99_seconds = models.FloatField(null=True)
    #: Totals of pg_stat_replication_slots.
    spill_txns = models.BigIntegerField(null=True)
    spill_bytes = models.BigIntegerField(null=True)
    stream_txns = models.BigIntegerField(null=True)
    stream_bytes = models.BigIntegerField(null=True)
    total_txns = models.BigIntegerField(null=True)
    total_bytes = models.BigIntegerField(null=True)
    #: Of our receiver: changes in its last store transaction, and the memory its process holds.
    batch_changes = models.BigIntegerField(null=True)
    memory_bytes = models.BigIntegerField(null=True)

    class Meta:
        abstract = True


class SlotSampleMinute(SampledValues):
    """A slot's samples of one minute; ``sampled_at`` is when it began."""

    pk = models.CompositePrimaryKey("slot_id", "sampled_at")
    samples = models.IntegerField(default=1)

    class Meta:
        managed = False


class SlotSampleHour(SampledValues):
    """A slot's samples of one hour; ``sampled_at`` is when it began."""

    pk = models.CompositePrimaryKey("slot_id", "sampled_at")
    samples = models.IntegerField(default=1)

    class Meta:
        managed = False


class SampleMark(Table):
    """How far samples are rolled up: all that began before ``until`` is."""

    #: ``minute`` or ``hour``.
    period = models.TextField(primary_key=True)
    until = models.DateTimeField()


class SourceSample(Table):
    """One source at one moment, whether it answered or not."""

    pk = models.CompositePrimaryKey("source_id", "sampled_at")
    source_id = models.BigIntegerField()
    sampled_at = models.DateTimeField()
    #: False: it did not answer; ``problem_code`` of the source says why.
    reachable = models.BooleanField(default=True)
    current_lsn = LSNField(null=True)
    #: From pg_ls_waldir(); None where that is not permitted.
    wal_directory_bytes = models.BigIntegerField(null=True)
    prepared = models.IntegerField(null=True)
    oldest_prepared_seconds = models.FloatField(null=True)
    #: Sessions with an xid or a snapshot; the oldest transaction's age.
    running = models.IntegerField(null=True)
    oldest_running_seconds = models.FloatField(null=True)
    #: How long the look took us.
    took_seconds = models.FloatField(null=True)
    #: When its last checkpoint (or restartpoint) began; None where that is not permitted.
    checkpointed_at = models.DateTimeField(null=True)

    class Meta:
        managed = False


class WatchedSubscription(Table):
    """A subscription of a source's database as last seen."""

    source = models.ForeignKey("Source", on_delete=models.CASCADE, related_name="subscriptions")
    name = models.TextField()
    first_seen_at = models.DateTimeField(default=timezone.now)
    last_seen_at = models.DateTimeField(default=timezone.now)
    gone_at = models.DateTimeField(null=True)
    #: pg_subscription (what anyone may read), pg_stat_subscription and its stats, in JSON's types;
    #: and ``failed_at``, when its errors were last seen to have become more.
    facts = models.JSONField(default=dict)

    objects = Seen()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "name"], name="watched_subscription_by_name")
        ]


class SlotEvent(Table):
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
        indexes = [models.Index(fields=["slot", "at"], name="slot_event_by_time")]


class SlotSample(SampledValues):
    """One slot at one moment, with everything the server told; None is unknown, never zero."""

    #: ``slot_id`` is a ``WatchedSlot.pk``, which of replview's own slots is ``Slot.pk``.
    pk = models.CompositePrimaryKey("slot_id", "sampled_at")
    #: All further columns the server's version has, as it spells them.
    detail = models.JSONField(default=dict)

    class Meta:
        managed = False


class SourceLook(Table):
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
