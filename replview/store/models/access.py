"""The access record: who looked at rows, took some out, or changed something, and when.

Append-only: the database refuses to change or delete a row of it (``migrations/_unmanaged.py``).
Names are copied into it and nothing refers to an account, a source or a table, so that it outlives
them. It lies in months, which only ``replview access forget`` drops; that too is recorded.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class AccessRecord(models.Model):
    """One act of somebody. It holds no value of a row: of a search its length and its columns."""

    class Action(models.TextChoices):
        """What was done."""

        SIGNED_IN = "signed_in", "signed in"
        SIGN_IN_FAILED = "sign_in_failed", "failed to sign in"
        SIGNED_OUT = "signed_out", "signed out"
        VIEWED_ROWS = "viewed_rows", "viewed rows"
        SEARCHED = "searched", "searched"
        COPIED_SQL = "copied_sql", "copied SQL"
        DOWNLOADED = "downloaded", "downloaded"
        EXPORTED = "exported", "exported"
        CHANGED_SETTINGS = "changed_settings", "changed settings"
        CHANGED_SOURCE = "changed_source", "changed a source"
        CHANGED_SLOT = "changed_slot", "changed a slot"
        ERASED = "erased", "erased"
        VIEWED_ACCESS_RECORD = "viewed_access_record", "viewed this record"
        FORGOT_ACCESS_RECORD = "forgot_access_record", "shortened this record"
        APPLIED_FLEET = "applied_fleet", "applied a fleet file"

    class Via(models.TextChoices):
        """The road it came by."""

        PAGE = "page", "page"
        API = "api", "API"
        SOCKET = "socket", "live"
        COMMAND = "command", "command"

    #: Given by a sequence: of two records of one moment the later one has the higher.
    id = models.BigAutoField(primary_key=True)
    #: The store's clock.
    at = models.DateTimeField()
    action = models.TextField(choices=Action)
    #: The account's number; None: nobody was signed in, or a command did it.
    user_id = models.BigIntegerField(null=True)
    #: Its name as it was then; of a command the account of the operating system; of a failed
    #: sign-in what was typed.
    user_name = models.TextField(default="", blank=True)
    via = models.TextField(choices=Via)
    #: From where, as the web server saw it; empty: of a command.
    address = models.TextField(default="", blank=True)
    #: Of the request, as the web server's log may have it too.
    request_id = models.TextField(default="", blank=True)
    #: The name of the page or call (never its address, which may hold a row's key).
    page = models.TextField(default="", blank=True)
    #: What it was done to, in words.
    subject = models.TextField(default="", blank=True)
    source_id = models.BigIntegerField(null=True)
    source_name = models.TextField(default="", blank=True)
    relation_ids = ArrayField(models.BigIntegerField(), default=list)
    #: ``schema.table`` of those, as they were called then.
    tables = ArrayField(models.TextField(), default=list)
    #: Further facts: ``rows``, ``transaction``, ``columns``, ``characters``, ``format`` …
    details = models.JSONField(default=dict)

    class Meta:
        db_table = "access_record"
        managed = False
        ordering = ["-at", "-id"]
