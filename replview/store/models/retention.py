"""Models of retention: days in the store, history moved to an archive, the store's size."""

from django.db import models

from replview.store.fields import LSNField, Table


class ArchiveMark(Table):
    """The progress of one incarnation of a slot in one archive.

    All of its history up to ``through_seq`` is there, and was counted. An archive that is chosen
    again is continued from there.
    """

    incarnation = models.ForeignKey(
        "SlotIncarnation", on_delete=models.CASCADE, related_name="archive_marks"
    )
    #: Value of ``archive.target`` at that time.
    target = models.TextField()
    #: Name of the source in the archive's folders; empty: the source's own name.
    home = models.TextField(default="", db_default="", blank=True)
    #: Last commit_seq in the archive; 0: there is none.
    through_seq = models.BigIntegerField(default=0)
    #: LSN and time of the last transaction there that has them; None: unknown.
    through_lsn = LSNField(null=True)
    through_time = models.DateTimeField(null=True)
    #: Beginning of this incarnation's archive; None: it is empty, or its first transaction has
    #: none.
    since_seq = models.BigIntegerField(null=True)
    since_lsn = LSNField(null=True)
    since_time = models.DateTimeField(null=True)
    #: Totals of the archive's files.
    transactions = models.BigIntegerField(default=0)
    changes = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)
    #: Time of the last progress.
    moved_at = models.DateTimeField(null=True)
    #: Time of the last attempt.
    checked_at = models.DateTimeField(null=True)
    #: Why there is no progress, and the remedy; empty: no problem.
    problem = models.TextField(default="", blank=True)
    remedy = models.TextField(default="", blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["incarnation", "target"], name="archive_mark_by_target")
        ]


class ArchivedRun(Table):
    """A run of transactions that were deleted from the store while there was an archive.

    They have consecutive identifiers and consecutive places in history, so that an identifier in an
    old URL still leads to the transaction.
    """

    first_id = models.BigIntegerField(primary_key=True)
    last_id = models.BigIntegerField()
    incarnation = models.ForeignKey(
        "SlotIncarnation", on_delete=models.CASCADE, related_name="archived_runs"
    )
    #: Commit_seq of ``first_id``.
    first_seq = models.BigIntegerField()


class KeptDay(Table):
    """One day of one incarnation of a slot: the transactions first received on it.

    They are counted in the background, not by the receivers (``store.retention.day_sizes``).
    """

    incarnation = models.ForeignKey(
        "SlotIncarnation", on_delete=models.CASCADE, related_name="kept_days"
    )
    #: Day in UTC, by the store's clock.
    day = models.DateField()
    transactions = models.BigIntegerField(default=0)
    changes = models.BigIntegerField(default=0)
    #: Sum of the lengths of the pgoutput messages.
    size_bytes = models.BigIntegerField(default=0)
    #: Estimated share of the space that the day occupies; None: the day is not over.
    store_bytes = models.BigIntegerField(null=True)
    #: First and last commit_seq of the day; None: no transaction got one.
    first_seq = models.BigIntegerField(null=True)
    last_seq = models.BigIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["incarnation", "day"], name="kept_day_once")]
        indexes = [models.Index(fields=["day"], name="kept_day_by_day")]


class StoreMoment(Table):
    """The size of the store at one time, for the forecast."""

    at = models.DateTimeField(primary_key=True)
    size_bytes = models.BigIntegerField()
    #: Free space on the disk of the store's data; None: it cannot be determined from here.
    free_bytes = models.BigIntegerField(null=True)
