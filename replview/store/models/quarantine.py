"""What could not be stored: the message that stopped a slot, and what somebody decided about it."""

from django.db import models
from django.utils import timezone

from replview.store.fields import LSNField
from replview.store.models.seen import SeenOfSlot


class Quarantine(models.Model):
    """A message that stopped its slot; the slot waits until somebody decides.

    Nothing after it is received, nothing of it is confirmed: the source still has it. ``raw`` is
    of the source and may hold what must not be shown to everybody.
    """

    class Decision(models.TextChoices):
        """What somebody decided; empty while nobody has."""

        NONE = ""
        #: Receive it once more: the cause was mended.
        RETRY = "retry"
        #: Leave the whole transaction out of the record, for good.
        SKIP = "skip"

    slot = models.ForeignKey("Slot", on_delete=models.CASCADE, related_name="quarantined")
    incarnation = models.ForeignKey("SlotIncarnation", on_delete=models.CASCADE)
    found_at = models.DateTimeField(default=timezone.now)
    #: The transaction it belongs to; None where the message belongs to none.
    xid = models.BigIntegerField(null=True)
    gid = models.TextField(null=True)
    #: Where its commit or prepare is; None for one still streaming.
    final_lsn = LSNField(null=True)
    #: Where the message itself is; None where the stream did not say.
    lsn = LSNField(null=True)
    #: ``schema.table``; empty where the message names none.
    relation = models.TextField(default="")
    #: The message's tag byte: I, U, D, T, M, R, Y …
    tag = models.TextField(default="")
    #: The message as it came, without the CopyData header; cut off at ``RAW_LIMIT_BYTES``.
    raw = models.BinaryField()
    raw_bytes = models.BigIntegerField()
    #: What refused it, in plain words, never a value.
    cause = models.TextField()
    remedy = models.TextField()
    decision = models.CharField(max_length=5, choices=Decision, default=Decision.NONE, blank=True)
    decided_by = models.TextField(default="", blank=True)
    decided_at = models.DateTimeField(null=True)
    #: When the decision had its effect.
    settled_at = models.DateTimeField(null=True)

    #: More of a message than this is not kept.
    RAW_LIMIT_BYTES = 64 * 1024 * 1024

    objects = SeenOfSlot()

    class Meta:
        db_table = "quarantine"
        indexes = [
            models.Index(
                fields=["slot"],
                name="quarantine_unsettled",
                condition=models.Q(settled_at__isnull=True),
            )
        ]
