"""A source that somebody is about to add in the browser, and what became of it."""

from django.conf import settings
from django.db import models
from django.utils import timezone


class SourceDraft(models.Model):
    """What one admin has entered so far; nothing of it is on the source until it is asked for."""

    class Kind(models.TextChoices):
        """How far replview may go."""

        #: A temporary slot, nothing kept.
        WATCH = "watch"
        #: No slot at all: catalog views, read every few seconds.
        MONITOR = "monitor"
        #: A publication and a slot.
        RECORD = "record"

    class State(models.TextChoices):
        """Where it stands."""

        OPEN = "open"
        #: Agreed to: a worker begins within a second or two.
        ASKED = "asked"
        WORKING = "working"
        DONE = "done"
        FAILED = "failed"
        #: Stopped by the user while it was carried out; all was taken back.
        CANCELLED = "cancelled"

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
    problem_cause = models.TextField(default="", blank=True)
    problem_remedy = models.TextField(default="", blank=True)
    #: The source that a slot is added to, or that was made.
    source = models.ForeignKey("Source", null=True, on_delete=models.CASCADE, related_name="+")
    slot = models.ForeignKey("Slot", null=True, on_delete=models.SET_NULL, related_name="+")

    created_at = models.DateTimeField(default=timezone.now)
    #: When its user last did something to it: it expires a day after.
    touched_at = models.DateTimeField(default=timezone.now)
    asked_at = models.DateTimeField(null=True)
    #: The worker's sign of life while it is carried out or watched.
    heartbeat_at = models.DateTimeField(null=True)
    #: When a browser last had the live page of a watch open.
    seen_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "source_draft"
        indexes = [
            models.Index(
                fields=["id"],
                name="source_draft_waiting",
                condition=models.Q(state__in=["asked", "working"]),
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.answers.get('name') or self.pk}"
