"""Everything done in the background on request: what all kinds of it have in common, and the kinds
that belong to no feature alone, a table each; ``jobs.rows`` is the life of all of them.
"""

from typing import ClassVar

from django.db import models
from django.utils import timezone

from replview.store.fields import LSNField, Table, index_where
from replview.store.models.seen import Seen, SeenOfSlot


class Job(Table):
    """Asked for, done by one worker at a time, kept with what came of it."""

    #: Each kind's own: ``WAITING``, ``RUNNING``, ``DONE`` … Pages and the API show the values.
    State: ClassVar[type[models.TextChoices]]
    state: "models.CharField[str, str]"

    requested_by = models.TextField(default="", blank=True)
    requested_at = models.DateTimeField(default=timezone.now)
    #: Tells the worker that has it from any that had it before.
    started_at = models.DateTimeField(null=True)
    #: The worker's last heartbeat; where it is old the worker was lost.
    heartbeat_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    #: How often a worker began or went on with it.
    attempts = models.IntegerField(default=0, db_default=0)
    problem_cause = models.TextField(default="", blank=True)
    problem_remedy = models.TextField(default="", blank=True)

    class Meta:
        abstract = True

    @property
    def waits(self) -> bool:
        return self.state in (self.State["WAITING"], self.State["RUNNING"])


class ProcessJob(Job):
    """Done by a process that a worker starts and follows: an export, a history job."""

    class State(models.TextChoices):
        WAITING = "waiting"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    #: Who chose a place that nothing known is in, or outside of the instance's folder, may do so.
    anywhere = models.BooleanField(default=False)
    #: As an address has them: the filter it came from, the options of a job.
    words = models.JSONField(default=dict)
    #: Host and process of the job, to end what a lost worker left running.
    worker = models.TextField(default="", blank=True)
    job_pid = models.IntegerField(null=True)
    #: An export's manifest: ``files`` with path, rows and bytes, and what else it tells. A history
    #: job's ``{"columns", "rows", "more", "complete", "reasons", "told"}``; rows: the first of all.
    result = models.JSONField(null=True)
    log_path = models.TextField(default="", blank=True)

    class Meta:
        abstract = True


class Export(ProcessJob):
    """One slice written as Parquet. Rows are only added: they outlive the slot and the asker."""

    class How(models.TextChoices):
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
    #: A local folder (absolute) or a URL; never with a password in it.
    target = models.TextField()
    #: Where Spark runs: ``local[2]``, ``sc://…``; empty: without it where the slice is small.
    spark = models.TextField(default="", blank=True)
    requested_how = models.CharField(max_length=7, choices=How)

    #: So far; None: not told yet.
    rows = models.BigIntegerField(null=True)
    total_rows = models.BigIntegerField(null=True)
    files = models.BigIntegerField(null=True)
    size_bytes = models.BigIntegerField(null=True)
    seconds_left = models.FloatField(null=True)

    objects = SeenOfSlot()

    class Meta:
        ordering = ["-id"]
        indexes = [
            index_where("export_waiting", "id", state__in=["waiting", "running"]),
            models.Index(fields=["name", "-id"], name="export_by_name"),
        ]


class HistoryJob(ProcessJob):
    """Something computed over exported history, by a command of ``replview spark``."""

    #: ``as-of``, ``who-changed-what`` …
    job = models.CharField(max_length=40)
    #: A local folder (absolute) or a URL that slices were exported to; never with a password in it.
    root = models.TextField()
    #: The folder of all its rows as Parquet; empty: not begun.
    output = models.TextField(default="", blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [index_where("history_job_waiting", "id", state__in=["waiting", "running"])]


class Baseline(Job):
    """A table's rows read once and stored as ``snapshot`` changes of one transaction, which is
    hidden (*copying*) until all are there.
    """

    class State(models.TextChoices):
        WAITING = "requested"
        RUNNING = "reading"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    slot = models.ForeignKey("Slot", on_delete=models.CASCADE, related_name="baselines")
    incarnation = models.ForeignKey("SlotIncarnation", null=True, on_delete=models.SET_NULL)
    schema = models.TextField()
    table = models.TextField()
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    #: No faster than this; None: as fast as it goes.
    rows_per_second = models.IntegerField(null=True)
    #: The rows are those of this position: of all that committed before it.
    lsn = LSNField(null=True)
    #: The transaction that holds the rows.
    transaction_id = models.BigIntegerField(null=True)
    rows = models.BigIntegerField(default=0)
    #: As the source's statistics tell; None: they do not.
    estimated_rows = models.BigIntegerField(null=True)
    problem_code = models.TextField(default="", blank=True)

    objects = SeenOfSlot()

    class Meta:
        indexes = [
            index_where("baseline_waiting", "id", state__in=["requested", "reading"]),
            models.Index(fields=["slot", "schema", "table", "-id"], name="baseline_by_table"),
        ]


class SlotPeek(Job):
    """A look into a slot without moving it: asked for by a page or a command, done by a worker."""

    class State(models.TextChoices):
        WAITING = "requested"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    source = models.ForeignKey("Source", on_delete=models.CASCADE, related_name="peeks")
    slot_name = models.TextField()
    #: What the plugin must be told: publications for pgoutput.
    options = models.JSONField(default=dict)
    max_changes = models.IntegerField()
    max_seconds = models.FloatField()
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    #: What waits in the slot; see ``receiver.peek``.
    result = models.JSONField(null=True)
    problem_code = models.TextField(default="", blank=True)

    objects = Seen()

    class Meta:
        indexes = [
            index_where("slot_peek_waiting", "id", state__in=["requested", "running"]),
            models.Index(fields=["source", "slot_name", "-id"], name="slot_peek_by_slot"),
        ]
