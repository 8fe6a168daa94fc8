"""What each slot's record occupies, day by day, and how large the store has been."""

from django.db import models


class KeptDay(models.Model):
    """One life of a slot on one day of the store: the transactions first seen then.

    Counted behind the receivers (``store.retention.day_sizes``): of today up to the last whole
    hour; of a day that is over once, and then it stays as it is.
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
        db_table = "kept_day"
        constraints = [models.UniqueConstraint(fields=["incarnation", "day"], name="kept_day_once")]
        indexes = [models.Index(fields=["day"], name="kept_day_by_day")]


class StoreMoment(models.Model):
    """How large the store was at a moment, for the forecast."""

    at = models.DateTimeField(primary_key=True)
    size_bytes = models.BigIntegerField()
    #: Left on the disk of its data; None: that cannot be told from here.
    free_bytes = models.BigIntegerField(null=True)

    class Meta:
        db_table = "store_moment"
