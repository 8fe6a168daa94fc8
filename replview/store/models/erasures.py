"""Persons erased from the record: what was asked, what was touched, who did it and why."""

from django.db import models

from replview.store.fields import index_where
from replview.store.models.jobs import Job


class Erasure(Job):
    """One act of erasing: looked at first, then confirmed, then carried out to its end. Rows are
    only ever added. They keep a keyed digest of the erased keys, and the keys sealed in
    ``sealed_plan`` until the act is over.
    """

    class State(models.TextChoices):
        #: Asked what it would touch; nothing is changed by that.
        LOOKING = "looking"
        #: That is known: somebody may confirm.
        LOOKED = "looked"
        #: Confirmed.
        WAITING = "waiting"
        RUNNING = "running"
        #: All that could be reached is erased; what is left is tried again.
        UNFINISHED = "unfinished"
        DONE = "done"
        #: Never confirmed, or refused before anything was changed.
        DROPPED = "dropped"

    slot = models.ForeignKey("Slot", null=True, on_delete=models.SET_NULL, related_name="erasures")
    #: ``source/name`` as it was.
    slot_name = models.TextField()
    #: ``schema.table`` of the rows, each once.
    tables = models.JSONField(default=list)
    #: How many keys were named.
    keys = models.IntegerField(default=0)
    #: Only these columns; empty: every value of the rows.
    columns = models.JSONField(default=list)
    #: An HMAC of each table and key, and of the actor's name, to know an erased key again.
    digests = models.JSONField(default=list)
    #: A name among the actors was erased, too.
    names_actor = models.BooleanField(default=False)
    reason = models.TextField(default="", blank=True)
    #: ``page`` or ``command``.
    requested_how = models.TextField(default="page")
    confirmed_by = models.TextField(default="", blank=True)
    confirmed_at = models.DateTimeField(null=True)

    state = models.CharField(max_length=10, choices=State, default=State.LOOKING)
    #: An unfinished one is tried again then.
    next_try_at = models.DateTimeField(null=True)
    #: What it is at, in a few words.
    step = models.TextField(default="", blank=True)
    #: Keys, names and how far they reach, sealed with the instance's secret key; empty: forgotten.
    sealed_plan = models.TextField(default="", blank=True)
    #: What would be touched: ``changes``, ``transactions``, ``days``, ``large_values``, ``tables``
    #: (name → changes), ``roots`` (see ``parquet.erasure.roots``), ``beside`` (thing → number).
    found = models.JSONField(default=dict)
    #: What was: the same numbers.
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
        """A worker has something to do for it, now or later."""
        later = (Erasure.State.LOOKING, Erasure.State.UNFINISHED)
        return super().waits or self.state in later
