"""What the record can vouch for: what was published when, and rows read as a baseline."""

from django.db import models
from django.utils import timezone

from replview.store.fields import LSNField
from replview.store.models.seen import SeenOfSlot


class PublicationLook(models.Model):
    """What a slot's publications published, from one look at the source's catalog to another.

    The stream does not say what it leaves out. A new row begins when something differs.
    """

    slot = models.ForeignKey("Slot", on_delete=models.CASCADE, related_name="publication_looks")
    #: The first and the last look that found this.
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    #: SHA-256 of ``facts``.
    digest = models.TextField()
    #: ``{"publications": [{"name", "insert", "update", "delete", "truncate", "via_root",
    #: "all_tables"}], "tables": [{"schema", "table", "oid", "columns": [name] or null for all,
    #: "unpublished_columns": [name], "row_filter": text or null, "operations": "IUDT",
    #: "replica_identity", "primary_key": [name], "root": "schema.table" or null}],
    #: "unpublished": ["schema.table"]}``.
    facts = models.JSONField()

    objects = SeenOfSlot()

    class Meta:
        db_table = "publication_look"
        indexes = [models.Index(fields=["slot", "-last_seen_at"], name="publication_look_latest")]


class Baseline(models.Model):
    """A table's rows read once and stored as ``snapshot`` changes: asked for, done by a worker.

    Its rows belong to one transaction of state *snapshot*, hidden (*copying*) until all are there.
    """

    class State(models.TextChoices):
        """How far it is."""

        REQUESTED = "requested"
        READING = "reading"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    slot = models.ForeignKey("Slot", on_delete=models.CASCADE, related_name="baselines")
    incarnation = models.ForeignKey("SlotIncarnation", null=True, on_delete=models.SET_NULL)
    schema = models.TextField()
    table = models.TextField()
    state = models.CharField(max_length=10, choices=State, default=State.REQUESTED)
    requested_at = models.DateTimeField(default=timezone.now)
    requested_by = models.TextField(default="", blank=True)
    #: No faster than this; None: as fast as it goes.
    rows_per_second = models.IntegerField(null=True)
    started_at = models.DateTimeField(null=True)
    #: The worker's sign of life; an older one was lost, and the table is read anew.
    heartbeat_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    #: The rows are those of this position: of all that committed before it.
    lsn = LSNField(null=True)
    #: The transaction that holds the rows.
    transaction_id = models.BigIntegerField(null=True)
    rows = models.BigIntegerField(default=0)
    #: As the source's statistics tell; None: they do not.
    estimated_rows = models.BigIntegerField(null=True)
    problem_code = models.TextField(default="", blank=True)
    problem_cause = models.TextField(default="", blank=True)
    problem_remedy = models.TextField(default="", blank=True)

    objects = SeenOfSlot()

    class Meta:
        db_table = "baseline"
        indexes = [
            models.Index(
                fields=["id"],
                name="baseline_waiting",
                condition=models.Q(state__in=["requested", "reading"]),
            ),
            models.Index(fields=["slot", "schema", "table", "-id"], name="baseline_by_table"),
        ]
