"""A source that somebody is about to add in the browser, and what became of it; and what is about
to be made on sources, noted before the first statement runs.
"""

from django.conf import settings
from django.db import models
from django.utils import timezone

from replview.store.fields import LSNField, Table, index_where
from replview.store.models.jobs import Job


class SourceDraft(Job):
    """What one admin has entered so far; nothing of it is on the source until it is asked for."""

    class Kind(models.TextChoices):
        """What replview is to do with the source."""

        #: A temporary slot, nothing kept.
        WATCH = "watch"
        #: No slot at all: catalog views, read every few seconds.
        MONITOR = "monitor"
        #: A publication and a slot.
        RECORD = "record"

    class State(models.TextChoices):
        OPEN = "open"
        #: Agreed to: a worker begins within a second or two.
        WAITING = "asked"
        RUNNING = "working"
        DONE = "done"
        FAILED = "failed"
        #: Stopped by the user while it was carried out; all was taken back.
        CANCELLED = "cancelled"

    #: ``user``, and ``asked_at``, tell it.
    requested_by = None  # type: ignore[assignment]
    requested_at = None  # type: ignore[assignment]
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="source_drafts"
    )
    kind = models.CharField(max_length=7, choices=Kind)
    state = models.CharField(max_length=9, choices=State, default=State.OPEN)
    #: As in ``Source``; empty once it is done.
    conninfo = models.TextField(default="", blank=True)
    sealed_password = models.TextField(default="", blank=True)
    password_ref = models.TextField(default="", blank=True)
    #: What was chosen in each step; see ``jobs.drafts``.
    answers = models.JSONField(default=dict, blank=True)
    #: The steps of carrying it out: ``[{"title", "sql", "state", "said"}]``.
    progress = models.JSONField(default=list, blank=True)
    #: What is on the source because of it, as statements that take it back, the first made first.
    undo = models.JSONField(default=list, blank=True)
    #: The user wants it to end: a watch, or carrying it out.
    stop_wanted = models.BooleanField(default=False)
    problem_code = models.TextField(default="", blank=True)
    #: The source that a slot is added to, or that was made.
    source = models.ForeignKey("Source", null=True, on_delete=models.CASCADE, related_name="+")
    slot = models.ForeignKey("Slot", null=True, on_delete=models.SET_NULL, related_name="+")

    created_at = models.DateTimeField(default=timezone.now)
    #: When its user last did something to it: it expires a day after.
    touched_at = models.DateTimeField(default=timezone.now)
    asked_at = models.DateTimeField(null=True)
    #: When a browser last had the live page of a watch open.
    seen_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [index_where("source_draft_waiting", "id", state__in=["asked", "working"])]

    def __str__(self) -> str:
        return f"{self.kind} {self.answers.get('name') or self.pk}"


class SlotIntention(Table):
    """A slot with its publications, until the store has the slot or nothing is left of it: found by
    this row and taken back where its maker was killed (``replview.acts.slot_sweeping``).
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

    def __str__(self) -> str:
        return f"{self.source_name}/{self.slot_name}"
