"""Models of background jobs: what they have in common, and kinds that several features use.

Each kind has its own table; ``jobs.rows`` implements the lifecycle of all of them.
"""

from typing import ClassVar

from django.db import models
from django.utils import timezone

from replview.store.fields import LSNField, Table, index_where
from replview.store.models.seen import SeenOfSlot, VisibleManager


class Job(Table):
    """A requested job: one worker at a time carries it out, and the row keeps the result."""

    #: States of this kind of job: ``WAITING``, ``RUNNING``, ``DONE`` … Pages and the API show the
    #: values.
    State: ClassVar[type[models.TextChoices]]
    state: "models.CharField[str, str]"

    requested_by = models.TextField(default="", blank=True)
    requested_at = models.DateTimeField(default=timezone.now)
    #: Start by the current worker; it tells this worker from earlier ones.
    started_at = models.DateTimeField(null=True)
    #: The worker's last heartbeat; an old one means that the worker is lost.
    heartbeat_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    #: Number of times a worker began or resumed the job.
    attempts = models.IntegerField(default=0, db_default=0)
    problem_cause = models.TextField(default="", blank=True)
    problem_remedy = models.TextField(default="", blank=True)

    class Meta:
        abstract = True

    @property
    def waits(self) -> bool:
        """Return whether a worker has to begin or to finish the job."""
        return self.state in (self.State["WAITING"], self.State["RUNNING"])


class ProcessJob(Job):
    """A job that runs in a process of its own, which a worker starts: an export, a history job."""

    class State(models.TextChoices):
        WAITING = "waiting"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    #: True when the requester may choose a new place, or one outside of the instance's folder.
    anywhere = models.BooleanField(default=False)
    #: URL parameters: the filter that the job was started from, or its options.
    words = models.JSONField(default=dict)
    #: Host and process of the job, to end a process that a lost worker left running.
    worker = models.TextField(default="", blank=True)
    job_pid = models.IntegerField(null=True)
    #: Manifest of an export: ``files`` with path, rows and bytes, and further facts. For a history
    #: job: ``{"columns", "rows", "more", "complete", "reasons", "details"}``, where ``rows``
    #: has the first rows.
    result = models.JSONField(null=True)
    log_path = models.TextField(default="", blank=True)

    class Meta:
        abstract = True


class Export(ProcessJob):
    """A slice of history written as Parquet.

    Rows are only added: they outlive the slot and the account that requested the export.
    """

    class How(models.TextChoices):
        PAGE = "page"
        API = "api"
        COMMAND = "command"

    slot = models.ForeignKey("Slot", null=True, on_delete=models.SET_NULL, related_name="exports")
    #: ``source/name`` of the slot at that time.
    slot_name = models.TextField()
    #: Name of a series of exports that continue *since last*; empty: a single export.
    name = models.CharField(max_length=100, default="", blank=True)
    #: ``parquet.slices.Slice`` as JSON, with fixed ends, so that a repetition writes the same
    #: files.
    slice = models.JSONField()
    #: Local folder (absolute) or URL, without a password.
    target = models.TextField()
    #: Spark's address: ``local[2]``, ``sc://…``; empty: no Spark if the slice is small.
    spark = models.TextField(default="", blank=True)
    requested_how = models.CharField(max_length=7, choices=How)

    #: Progress so far; None: not reported yet.
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
    """A computation over exported history, by a command of ``replview spark``."""

    #: ``as-of``, ``who-changed-what`` …
    job = models.CharField(max_length=40)
    #: Local folder (absolute) or URL that slices were exported to, without a password.
    root = models.TextField()
    #: Folder of all result rows as Parquet; empty: not begun.
    output = models.TextField(default="", blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [index_where("history_job_waiting", "id", state__in=["waiting", "running"])]


class Baseline(Job):
    """A table's rows, read once and stored as ``snapshot`` changes of one transaction.

    The transaction is hidden (*copying*) until all rows are stored.
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
    #: Limit of rows a second; None: no limit.
    rows_per_second = models.IntegerField(null=True)
    #: Position of the rows: they contain everything that committed before it.
    lsn = LSNField(null=True)
    #: Transaction that contains the rows.
    transaction_id = models.BigIntegerField(null=True)
    rows = models.BigIntegerField(default=0)
    #: Estimate of the source's statistics; None: there is none.
    estimated_rows = models.BigIntegerField(null=True)
    problem_code = models.TextField(default="", blank=True)

    objects = SeenOfSlot()

    class Meta:
        indexes = [
            index_where("baseline_waiting", "id", state__in=["requested", "reading"]),
            models.Index(fields=["slot", "schema", "table", "-id"], name="baseline_by_table"),
        ]


class SlotPeek(Job):
    """A peek into a slot, which does not move it; a page or a command requests it."""

    class State(models.TextChoices):
        WAITING = "requested"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    source = models.ForeignKey("Source", on_delete=models.CASCADE, related_name="peeks")
    slot_name = models.TextField()
    #: Options of the plugin: publications for pgoutput.
    options = models.JSONField(default=dict)
    max_changes = models.IntegerField()
    max_seconds = models.FloatField()
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    #: Changes that wait in the slot; see ``receiver.peek``.
    result = models.JSONField(null=True)
    problem_code = models.TextField(default="", blank=True)

    objects = VisibleManager()

    class Meta:
        indexes = [
            index_where("slot_peek_waiting", "id", state__in=["requested", "running"]),
            models.Index(fields=["source", "slot_name", "-id"], name="slot_peek_by_slot"),
        ]
