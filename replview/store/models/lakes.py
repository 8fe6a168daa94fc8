"""Models of lakes: tables in Delta or Iceberg that a slot's record feeds, and their runs."""

from django.db import models
from django.utils import timezone

from replview.store.fields import Table
from replview.store.models.jobs import ProcessJob
from replview.store.models.seen import SeenOfLake, SeenOfSlot

#: Runs that have not ended.
_UNENDED = models.Q(state="waiting") | models.Q(state="running")


class Lake(Table):
    """A folder or bucket with two maintained tables for each chosen table of a slot."""

    class Format(models.TextChoices):
        DELTA = "delta"
        ICEBERG = "iceberg"

    name = models.CharField(max_length=100, unique=True)
    slot = models.ForeignKey("Slot", null=True, on_delete=models.SET_NULL, related_name="lakes")
    #: ``source/name`` of the slot when the lake was added: its folders have these names.
    slot_name = models.TextField()
    format = models.CharField(max_length=7, choices=Format)
    #: Local folder (absolute) or URL, without a password.
    root = models.TextField()
    #: Maven coordinates of Spark's connector, ``none`` if Spark has it; empty: the one for
    #: this Spark.
    connector = models.TextField(default="", blank=True)
    #: Minutes after which beat requests the next run; None: it requests none.
    every_minutes = models.IntegerField(null=True)
    added_by = models.TextField(default="", blank=True)
    added_at = models.DateTimeField(default=timezone.now)

    objects = SeenOfSlot()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class LakeRelation(Table):
    """A table in a lake, with the facts that its last run reported."""

    lake = models.ForeignKey(Lake, on_delete=models.CASCADE, related_name="relations")
    #: ``schema.table``.
    name = models.TextField()
    #: Last ``commit_seq`` that ``changes`` has of each incarnation: ``{"1": 5043}``.
    reached = models.JSONField(default=dict)
    #: Number of batches that the last run appended.
    batches = models.IntegerField(default=0)
    #: ``{"changes": {"rows", "files", "bytes"}, "current": {…}}``; None: not reported yet.
    sizes = models.JSONField(null=True)
    #: ``[[incarnation, first commit_seq, last commit_seq]]`` of history that the lake lacks.
    gaps = models.JSONField(default=list)
    #: Reason why there is no ``current``; empty: there is one.
    no_current = models.TextField(default="", blank=True)
    #: Time of the last run that reported this table.
    reported_at = models.DateTimeField(null=True)
    #: Problem of that run; empty: it succeeded.
    problem_cause = models.TextField(default="", blank=True)
    problem_remedy = models.TextField(default="", blank=True)

    objects = SeenOfLake()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["lake", "name"], name="lake_relation_by_name")
        ]

    def __str__(self) -> str:
        return self.name


class LakeRun(ProcessJob):
    """A run of a lake, which feeds or maintains its tables one after the other."""

    class How(models.TextChoices):
        PAGE = "page"
        COMMAND = "command"
        SCHEDULE = "schedule"

    class Action(models.TextChoices):
        RUN = "run"
        MAINTAIN = "maintain"
        ERASE = "erase"

    lake = models.ForeignKey(Lake, on_delete=models.CASCADE, related_name="runs")
    action = models.CharField(max_length=8, choices=Action)
    requested_how = models.CharField(max_length=8, choices=How)
    #: Name of the table that is being read, or that made the run fail; empty: none.
    reading = models.TextField(default="", blank=True)

    objects = SeenOfLake()

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["id"], name="lake_run_waiting", condition=_UNENDED)]
        constraints = [
            # Two runs of a lake would write the same tables.
            models.UniqueConstraint(fields=["lake"], name="lake_run_alone", condition=_UNENDED)
        ]
