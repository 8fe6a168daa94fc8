"""What was taken out of the record, by whom, and what became of it."""

from django.db import models
from django.utils import timezone

from replview.store.models.seen import SeenOfSlot


class Export(models.Model):
    """One slice written as Parquet: asked for, done by one worker at a time, recorded for good.

    Rows are only ever added: who exported what stays known after the slot, and whoever asked, is
    gone.
    """

    class State(models.TextChoices):
        """How far it is."""

        WAITING = "waiting"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    class How(models.TextChoices):
        """By which door somebody asked."""

        PAGE = "page"
        API = "api"
        COMMAND = "command"

    slot = models.ForeignKey("Slot", null=True, on_delete=models.SET_NULL, related_name="exports")
    #: ``source/name`` as it was.
    slot_name = models.TextField()
    #: Of those that continue *since last*; empty: a single one.
    name = models.CharField(max_length=100, default="", blank=True)
    #: ``parquet.slices.Slice`` as JSON: fixed ends, so that doing it again gives the same files.
    slice = models.JSONField()
    #: The words of the filter it came from, as an address has them.
    words = models.JSONField(default=dict)
    #: A local folder (absolute) or a URL; never with a password in it.
    target = models.TextField()
    #: Who chose a target outside of the instance's own folder may do so.
    anywhere = models.BooleanField(default=False)
    #: Where Spark runs: ``local[2]``, ``sc://…``; empty: without it where the slice is small.
    spark = models.TextField(default="", blank=True)
    requested_by = models.TextField()
    requested_how = models.CharField(max_length=7, choices=How)
    requested_at = models.DateTimeField(default=timezone.now)

    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    #: Tells the worker that has it from any that had it before.
    started_at = models.DateTimeField(null=True)
    #: The worker's sign of life; an older one was lost, and another goes on with it.
    heartbeat_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    #: How often a worker began or went on with it.
    attempts = models.IntegerField(default=0)
    #: Host and process of the job, to end what a lost worker left running.
    worker = models.TextField(default="", blank=True)
    job_pid = models.IntegerField(null=True)

    #: So far; None: not told yet.
    rows = models.BigIntegerField(null=True)
    total_rows = models.BigIntegerField(null=True)
    files = models.BigIntegerField(null=True)
    size_bytes = models.BigIntegerField(null=True)
    seconds_left = models.FloatField(null=True)
    #: The manifest: ``files`` with path, rows and bytes, and what else it tells.
    result = models.JSONField(null=True)
    problem_cause = models.TextField(default="", blank=True)
    problem_remedy = models.TextField(default="", blank=True)
    log_path = models.TextField(default="", blank=True)

    objects = SeenOfSlot()

    class Meta:
        db_table = "export"
        ordering = ["-id"]
        indexes = [
            models.Index(
                fields=["id"],
                name="export_waiting",
                condition=models.Q(state__in=["waiting", "running"]),
            ),
            models.Index(fields=["name", "-id"], name="export_by_name"),
        ]

    @property
    def waits(self) -> bool:
        """Neither done nor given up."""
        return self.state in (Export.State.WAITING, Export.State.RUNNING)
