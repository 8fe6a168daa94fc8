"""Models of sources and slots that are about to be added.

They record what a person entered in the browser and its progress, and which objects are to be
created on a source, before the first statement runs.
"""

from django.conf import settings
from django.db import models
from django.utils import timezone

from replview.store.fields import LSNField, Table, index_where
from replview.store.models.jobs import Job


class SourceDraft(Job):
    """The input of one admin so far; nothing is created on the source before the admin confirms."""

    class Kind(models.TextChoices):
        """The way in which replview will use the source."""

        #: A temporary slot, of which nothing is kept.
        WATCH = "watch"
        #: No slot at all: catalog views, read every few seconds.
        MONITOR = "monitor"
        #: A publication and a slot.
        RECORD = "record"

    class State(models.TextChoices):
        OPEN = "open"
        #: Confirmed: a worker begins within a second or two.
        WAITING = "asked"
        RUNNING = "working"
        DONE = "done"
        FAILED = "failed"
        #: Stopped by the user while it was carried out; everything was undone.
        CANCELLED = "cancelled"

    #: Not used: ``user`` and ``asked_at`` have these facts.
    requested_by = None  # type: ignore[assignment]
    requested_at = None  # type: ignore[assignment]
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="source_drafts"
    )
    kind = models.CharField(max_length=7, choices=Kind)
    state = models.CharField(max_length=9, choices=State, default=State.OPEN)
    #: Address as in ``Source``; empty once the draft is done.
    conninfo = models.TextField(default="", blank=True)
    sealed_password = models.TextField(default="", blank=True)
    password_ref = models.TextField(default="", blank=True)
    #: The choices of each step; see ``jobs.drafts``.
    answers = models.JSONField(default=dict, blank=True)
    #: Steps in which it is carried out: ``[{"title", "sql", "state", "said"}]``.
    progress = models.JSONField(default=list, blank=True)
    #: Statements that undo what was created on the source, in the order of creation.
    undo = models.JSONField(default=list, blank=True)
    #: True when the user wants to end the watch, or to stop carrying it out.
    stop_wanted = models.BooleanField(default=False)
    problem_code = models.TextField(default="", blank=True)
    #: Source that a slot is added to, or that was created.
    source = models.ForeignKey("Source", null=True, on_delete=models.CASCADE, related_name="+")
    slot = models.ForeignKey("Slot", null=True, on_delete=models.SET_NULL, related_name="+")

    created_at = models.DateTimeField(default=timezone.now)
    #: Time of the user's last input: the draft expires a day later.
    touched_at = models.DateTimeField(default=timezone.now)
    asked_at = models.DateTimeField(null=True)
    #: Time at which a browser last had the live page of a watch open.
    seen_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [index_where("source_draft_waiting", "id", state__in=["asked", "working"])]

    def __str__(self) -> str:
        return f"{self.kind} {self.answers.get('name') or self.pk}"


class SlotIntention(Table):
    """A slot with its publications that is being created on a source.

    The row exists until the store has the slot or nothing is left of it on the source. If its maker
    was killed, ``replview.acts.slot_sweeping`` finds the row and undoes the creation.
    """

    #: Source of the slot; None: the source is added together with the slot, and its address is
    #: here.
    source = models.ForeignKey("Source", null=True, on_delete=models.CASCADE, related_name="+")
    #: Draft that was entered in the browser; while it is carried out, its worker is alive.
    draft = models.ForeignKey("SourceDraft", null=True, on_delete=models.SET_NULL, related_name="+")
    source_name = models.TextField()
    #: Address as in ``Source``.
    conninfo = models.TextField(default="", blank=True)
    sealed_password = models.TextField(default="", blank=True)
    password_ref = models.TextField(default="", blank=True)
    slot_name = models.TextField()
    #: WAL position of the source before creation: a slot with an earlier position is not this one.
    after_lsn = LSNField(null=True)
    #: Objects whose creation was begun, in order: ``[{"kind", "name", "create", "undo"}]``.
    begun = models.JSONField(default=list, blank=True)
    #: Time at which the last statement began.
    begun_at = models.DateTimeField(default=timezone.now)
    #: Time at which an object was first found that nobody reads or is creating.
    seen_at = models.DateTimeField(null=True)
    tried_at = models.DateTimeField(null=True)
    #: Time at which undoing began: the process that created the objects must not go on.
    swept_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.source_name}/{self.slot_name}"
