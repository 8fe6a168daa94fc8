"""What replview is about to make on a source, noted before the first statement runs."""

from django.db import models
from django.utils import timezone

from replview.store.fields import LSNField


class SlotIntention(models.Model):
    """A slot with its publications, until the store has the slot or nothing is left of it.

    Whoever makes them may be killed in between: what is there then is found by this row and taken
    back (``replview.acts.slot_sweeping``).
    """

    #: None: a source that comes into the store with its slot. Then the address stands here.
    source = models.ForeignKey("Source", null=True, on_delete=models.CASCADE, related_name="+")
    #: Entered in the browser: while that is being carried out its worker is alive.
    draft = models.ForeignKey("SourceDraft", null=True, on_delete=models.SET_NULL, related_name="+")
    source_name = models.TextField()
    #: As in ``Source``.
    conninfo = models.TextField(default="", blank=True)
    sealed_password = models.TextField(default="", blank=True)
    password_ref = models.TextField(default="", blank=True)
    slot_name = models.TextField()
    #: Where the source's WAL was before: a slot that goes further back is none of ours.
    after_lsn = LSNField(null=True)
    #: What was begun, in this order: ``[{"kind", "name", "create", "undo"}]``.
    begun = models.JSONField(default=list, blank=True)
    #: When the last statement began.
    begun_at = models.DateTimeField(default=timezone.now)
    #: When something was first found there that nobody reads or makes.
    seen_at = models.DateTimeField(null=True)
    tried_at = models.DateTimeField(null=True)
    #: It is being taken back: whoever made it must not go on.
    swept_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "slot_intention"

    def __str__(self) -> str:
        return f"{self.source_name}/{self.slot_name}"
