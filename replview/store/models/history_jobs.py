"""What was computed over exported history, by whom, and what came of it."""

from django.db import models
from django.utils import timezone


class HistoryJob(models.Model):
    """A history job over exported Parquet: asked for, run by one worker at a time, kept with its
    first rows.
    """

    class State(models.TextChoices):
        """How far it is."""

        WAITING = "waiting"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    #: ``as-of``, ``who-changed-what`` …: a command of ``replview spark``.
    job = models.CharField(max_length=40)
    #: A local folder (absolute) or a URL that slices were exported to; never with a password in it.
    root = models.TextField()
    #: Who chose a root that nothing known is in may do so.
    anywhere = models.BooleanField(default=False)
    #: The job's other words, as an address has them: life, table, lsn, time …
    words = models.JSONField(default=dict)
    requested_by = models.TextField()
    requested_at = models.DateTimeField(default=timezone.now)

    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    #: Tells the worker that has it from any that had it before.
    started_at = models.DateTimeField(null=True)
    #: The worker's sign of life; an older one was lost, and another begins anew.
    heartbeat_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    attempts = models.IntegerField(default=0)
    #: Host and process of the job, to end what a lost worker left running.
    worker = models.TextField(default="", blank=True)
    job_pid = models.IntegerField(null=True)

    #: The folder of all its rows as Parquet; empty: not begun.
    output = models.TextField(default="", blank=True)
    #: ``{"columns", "rows", "more", "complete", "reasons", "told"}``; rows are the first of all.
    result = models.JSONField(null=True)
    problem_cause = models.TextField(default="", blank=True)
    problem_remedy = models.TextField(default="", blank=True)
    log_path = models.TextField(default="", blank=True)

    class Meta:
        db_table = "history_job"
        ordering = ["-id"]
        indexes = [
            models.Index(
                fields=["id"],
                name="history_job_waiting",
                condition=models.Q(state__in=["waiting", "running"]),
            ),
        ]

    @property
    def waits(self) -> bool:
        """Neither done nor given up."""
        return self.state in (HistoryJob.State.WAITING, HistoryJob.State.RUNNING)
