"""Models of erasures: the request to erase persons from the record, and what was erased."""

from django.db import models

from replview.store.fields import index_where
from replview.store.models.jobs import Job


class Erasure(Job):
    """One erasure: its effect is computed first, then it is confirmed, then carried out to its end.

    Rows are only ever added. They keep a keyed digest of the erased keys; ``sealed_plan`` has the
    keys, encrypted, until the erasure is over.
    """

    class State(models.TextChoices):
        #: The effect is being computed; nothing is changed.
        LOOKING = "looking"
        #: The effect is known: the erasure can be confirmed.
        LOOKED = "looked"
        #: Confirmed.
        WAITING = "waiting"
        RUNNING = "running"
        #: Everything that could be reached is erased; the rest is tried again.
        UNFINISHED = "unfinished"
        DONE = "done"
        #: Never confirmed, or refused before anything was changed.
        DROPPED = "dropped"

    slot = models.ForeignKey("Slot", null=True, on_delete=models.SET_NULL, related_name="erasures")
    #: ``source/name`` of the slot at that time.
    slot_name = models.TextField()
    #: Distinct ``schema.table`` of the rows.
    tables = models.JSONField(default=list)
    #: Number of keys in the request.
    keys = models.IntegerField(default=0)
    #: Columns to erase; empty: every value of the rows.
    columns = models.JSONField(default=list)
    #: HMACs of each table and key, and of the actor's name, to recognize an erased key.
    digests = models.JSONField(default=list)
    #: True when the name of an actor was erased, too.
    names_actor = models.BooleanField(default=False)
    reason = models.TextField(default="", blank=True)
    #: ``page`` or ``command``.
    requested_how = models.TextField(default="page")
    confirmed_by = models.TextField(default="", blank=True)
    confirmed_at = models.DateTimeField(null=True)

    state = models.CharField(max_length=10, choices=State, default=State.LOOKING)
    #: Time of the next attempt of an unfinished erasure.
    next_try_at = models.DateTimeField(null=True)
    #: Current step, in a few words.
    step = models.TextField(default="", blank=True)
    #: Keys, names and their extent, encrypted with the instance's secret key; empty: deleted.
    sealed_plan = models.TextField(default="", blank=True)
    #: Numbers of what would be erased: ``changes``, ``transactions``, ``days``, ``large_values``,
    #: ``tables`` (name → changes), ``roots`` (see ``parquet.erasure.roots``), ``beside`` (thing →
    #: number).
    found = models.JSONField(default=dict)
    #: Numbers of what was erased, in the same form.
    erased = models.JSONField(default=dict)
    #: ``[{"root", "what", "files", "rows", "problem", "remedy", "done", "left_out_by"}]``.
    roots = models.JSONField(default=list)

    class Meta:
        ordering = ["-id"]
        indexes = [
            index_where(
                "erasure_waiting", "id", state__in=["looking", "waiting", "running", "unfinished"]
            )
        ]

    @property
    def waits(self) -> bool:
        """Return whether a worker has something to do for it, now or later."""
        waiting_states = (Erasure.State.LOOKING, Erasure.State.UNFINISHED)
        return super().waits or self.state in waiting_states
