"""What left the store: days moved to an archive, marks of how far that is, and its free space."""

from django.db import models

from replview.store.fields import LSNField, Table


class ArchiveMark(Table):
    """One incarnation of a slot in one archive: all of its history up to here is there, and was
    counted. An archive that is chosen again goes on where it was.
    """

    incarnation = models.ForeignKey(
        "SlotIncarnation", on_delete=models.CASCADE, related_name="archive_marks"
    )
    #: As ``archive.target`` had it.
    target = models.TextField()
    #: The source's name in its folders; empty: as the source is called.
    home = models.TextField(default="", db_default="", blank=True)
    #: The last commit_seq that is there; 0: nothing is.
    through_seq = models.BigIntegerField(default=0)
    #: Of the last transaction there that has them; None: unknown.
    through_lsn = LSNField(null=True)
    through_time = models.DateTimeField(null=True)
    #: Where the archive of this incarnation begins; None: nothing is there, or it has no such.
    since_seq = models.BigIntegerField(null=True)
    since_lsn = LSNField(null=True)
    since_time = models.DateTimeField(null=True)
    #: Counted in its files.
    transactions = models.BigIntegerField(default=0)
    changes = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)
    #: When it moved last.
    moved_at = models.DateTimeField(null=True)
    #: When it was last tried.
    checked_at = models.DateTimeField(null=True)
    #: Why it does not move, and what mends that; empty: nothing is in its way.
    problem = models.TextField(default="", blank=True)
    remedy = models.TextField(default="", blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["incarnation", "target"], name="archive_mark_by_target")
        ]


class ArchivedRun(Table):
    """Transactions deleted from the store while there was an archive: consecutive identifiers with
    consecutive places in history, so that an identifier in an old address still leads there.
    """

    first_id = models.BigIntegerField(primary_key=True)
    last_id = models.BigIntegerField()
    incarnation = models.ForeignKey(
        "SlotIncarnation", on_delete=models.CASCADE, related_name="archived_runs"
    )
    #: The commit_seq of ``first_id``.
    first_seq = models.BigIntegerField()


class KeptDay(Table):
    """One incarnation of a slot on one day of the store: the transactions first seen then, counted
    behind the receivers (``store.retention.day_sizes``).
    """

    incarnation = models.ForeignKey(
        "SlotIncarnation", on_delete=models.CASCADE, related_name="kept_days"
    )
    #: UTC, by the store's clock.
    day = models.DateField()
    transactions = models.BigIntegerField(default=0)
    changes = models.BigIntegerField(default=0)
    #: Sum of the lengths of its pgoutput messages.
    size_bytes = models.BigIntegerField(default=0)
    #: Its share of what the day occupies, estimated; None: the day is not over.
    store_bytes = models.BigIntegerField(null=True)
    #: The places in history that it holds; None: none was given one.
    first_seq = models.BigIntegerField(null=True)
    last_seq = models.BigIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["incarnation", "day"], name="kept_day_once")]
        indexes = [models.Index(fields=["day"], name="kept_day_by_day")]


class StoreMoment(Table):
    """How large the store was at a moment, for the forecast."""

    at = models.DateTimeField(primary_key=True)
    size_bytes = models.BigIntegerField()
    #: Left on the disk of its data; None: that cannot be told from here.
    free_bytes = models.BigIntegerField(null=True)
