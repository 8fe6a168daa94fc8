"""Models of samples: slots and subscriptions of the sources over time, and the slots' logs.

Raw samples are kept for a day, a row a minute for a month, a row an hour for a year (settings); see
``features.sampling.rollups``. None is unknown, never zero.
"""

from typing import Any

from django.db import models
from django.db.models.fields.json import KT
from django.utils import timezone

from replview.store.fields import LSNField, Table
from replview.store.models.seen import M, SeenOfSlot, VisibleManager, seen_sources


def own_database() -> models.Subquery:
    """Return the database of the source, for rows with a ``source_id``."""
    looks = SourceLook.objects.filter(source_id=models.OuterRef("source_id"))
    return models.Subquery(looks.values_list(KT("holders__database"))[:1])


class SeenSlots(VisibleManager[M]):
    """Slots that the account sees."""

    def get_queryset(self) -> Any:
        """Return the slots, without those of other databases on a shared server.

        An account that sees every source gets all of them.
        """
        rows = super().get_queryset()
        if seen_sources() is None:
            return rows
        in_own_database = models.Q(database=None) | models.Q(database=own_database())
        return rows.filter(models.Q(slot__isnull=False) | in_own_database)


class WatchedSlot(Table):
    """A replication slot of a source as last seen: replview's or another one, logical or physical.

    ``id`` is used in its samples: it is ``Slot.pk``, or drawn from the same sequence until the slot
    is adopted.
    """

    id = models.BigIntegerField(primary_key=True)
    source = models.ForeignKey("Source", on_delete=models.CASCADE, related_name="watched_slots")
    name = models.TextField()
    #: Slot that replview receives; None: another program's slot.
    slot = models.OneToOneField("Slot", null=True, on_delete=models.CASCADE, related_name="watched")
    #: ``logical`` or ``physical``.
    slot_type = models.TextField(default="logical")
    plugin = models.TextField(null=True)
    database = models.TextField(null=True)
    temporary = models.BooleanField(null=True)
    first_seen_at = models.DateTimeField(default=timezone.now)
    last_seen_at = models.DateTimeField(default=timezone.now)
    #: Time of the first look that did not find it; None: it exists.
    gone_at = models.DateTimeField(null=True)
    #: None: active when last seen. From PostgreSQL 17 on the server's ``inactive_since``, before
    #: that the time of the first look that found it inactive.
    inactive_since = models.DateTimeField(null=True)
    #: The whole row of the last look in the form of ``SlotSample.detail``, with the sample's
    #: columns.
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
    """The columns of a slot's sample, or of the samples in a period.

    A period has the highest of values that are bad when high, the lowest of values that are bad
    when low, and the last of positions and totals.
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
    #: Totals of the record at that time, from which rates are computed.
    transactions_stored = models.BigIntegerField(null=True)
    changes_stored = models.BigIntegerField(null=True)
    bytes_stored = models.BigIntegerField(null=True)
    #: Lags of the walsender that reads the slot, from pg_stat_replication.
    write_lag_seconds = models.FloatField(null=True)
    flush_lag_seconds = models.FloatField(null=True)
    replay_lag_seconds = models.FloatField(null=True)
    #: Seconds from commit on the source to storing, of transactions stored since the last sample.
    stored_after_p50_seconds = models.FloatField(null=True)
    stored_after_p99_seconds = models.FloatField(null=True)
    #: Totals of pg_stat_replication_slots.
    spill_txns = models.BigIntegerField(null=True)
    spill_bytes = models.BigIntegerField(null=True)
    stream_txns = models.BigIntegerField(null=True)
    stream_bytes = models.BigIntegerField(null=True)
    total_txns = models.BigIntegerField(null=True)
    total_bytes = models.BigIntegerField(null=True)
    #: Facts of the receiver: changes in its last store transaction, and its process's resident
    #: memory.
    batch_changes = models.BigIntegerField(null=True)
    memory_bytes = models.BigIntegerField(null=True)

    class Meta:
        abstract = True


class SlotSampleMinute(SampledValues):
    """The samples of a slot in one minute; ``sampled_at`` is the minute's beginning."""

    pk = models.CompositePrimaryKey("slot_id", "sampled_at")
    samples = models.IntegerField(default=1)

    class Meta:
        managed = False


class SlotSampleHour(SampledValues):
    """The samples of a slot in one hour; ``sampled_at`` is the hour's beginning."""

    pk = models.CompositePrimaryKey("slot_id", "sampled_at")
    samples = models.IntegerField(default=1)

    class Meta:
        managed = False


class SampleMark(Table):
    """The progress of rolling samples up: everything that began before ``until`` is done."""

    #: ``minute`` or ``hour``.
    period = models.TextField(primary_key=True)
    until = models.DateTimeField()


class SourceSample(Table):
    """A sample of one source, whether it answered or not."""

    pk = models.CompositePrimaryKey("source_id", "sampled_at")
    source_id = models.BigIntegerField()
    sampled_at = models.DateTimeField()
    #: False when the source did not answer; its ``problem_code`` says why.
    reachable = models.BooleanField(default=True)
    current_lsn = LSNField(null=True)
    #: From pg_ls_waldir(); None where that is not permitted.
    wal_directory_bytes = models.BigIntegerField(null=True)
    prepared = models.IntegerField(null=True)
    oldest_prepared_seconds = models.FloatField(null=True)
    #: Number of sessions with an xid or a snapshot, and the age of the oldest transaction.
    running = models.IntegerField(null=True)
    oldest_running_seconds = models.FloatField(null=True)
    #: Duration of the look.
    took_seconds = models.FloatField(null=True)
    #: Time at which the source's last checkpoint (or restartpoint) began; None where not permitted.
    checkpointed_at = models.DateTimeField(null=True)

    class Meta:
        managed = False


class WatchedSubscription(Table):
    """A subscription in a source's database as last seen."""

    source = models.ForeignKey("Source", on_delete=models.CASCADE, related_name="subscriptions")
    name = models.TextField()
    first_seen_at = models.DateTimeField(default=timezone.now)
    last_seen_at = models.DateTimeField(default=timezone.now)
    gone_at = models.DateTimeField(null=True)
    #: Rows of pg_subscription (its public columns), pg_stat_subscription and its stats, in JSON's
    #: types; and ``failed_at``, the time at which its error count was last seen to have grown.
    facts = models.JSONField(default=dict)

    objects = VisibleManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "name"], name="watched_subscription_by_name")
        ]


class SlotEvent(Table):
    """A line of a slot's log: connected, disconnected, schema changed, gap and so on."""

    slot = models.ForeignKey("Slot", on_delete=models.CASCADE, related_name="events")
    incarnation = models.ForeignKey("SlotIncarnation", null=True, on_delete=models.CASCADE)
    at = models.DateTimeField(default=timezone.now)
    #: ``connected``, ``disconnected``, ``schema``, ``gap``, ``problem``, ``stopped`` …
    kind = models.TextField()
    #: One plain sentence, without a value of the source.
    message = models.TextField()
    detail = models.JSONField(default=dict)
    lsn = LSNField(null=True)
    #: Place in history: after this commit_seq.
    after_commit_seq = models.BigIntegerField(default=0)

    objects = SeenOfSlot()

    class Meta:
        indexes = [models.Index(fields=["slot", "at"], name="slot_event_by_time")]


class SlotSample(SampledValues):
    """A sample of one slot, with everything the server reported; None is unknown, never zero."""

    #: ``slot_id`` is a ``WatchedSlot.pk``, which for replview's own slots equals ``Slot.pk``.
    pk = models.CompositePrimaryKey("slot_id", "sampled_at")
    #: All further columns of the server's version, under its names.
    detail = models.JSONField(default=dict)

    class Meta:
        managed = False


class SourceLook(Table):
    """The transactions and slots that hold WAL and vacuum back on a source, as last seen."""

    source = models.OneToOneField(
        "Source", on_delete=models.CASCADE, primary_key=True, related_name="look"
    )
    looked_at = models.DateTimeField()
    #: ``[{"gid", "xid", "prepared_at", "owner", "database"}]`` of pg_prepared_xacts, oldest first.
    prepared = models.JSONField(null=True)
    #: Limit at which ``prepared`` was cut off; None where it was not.
    prepared_limit = models.IntegerField(null=True)
    #: ``[{"pid", "database", "role", "application_name", "state", "xact_started_at", "xid",
    #: "backend_xmin_age"}]`` of pg_stat_activity, oldest first, bounded.
    running = models.JSONField(null=True)
    #: ``slots`` (``{slot name: {"restart_lsn", "catalog_xmin_age", "xmin_age", …}}``),
    #: ``standbys``, ``waiting``, ``next_xid`` and the settings that matter here; see
    #: ``features.sampling.sample``.
    holders = models.JSONField(null=True)
