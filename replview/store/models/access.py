"""Accounts, masks and the access record: identities, rights, tokens, filters, which columns nobody
sees, and who did what, when.

The access record is append-only: the database refuses to change or delete a row of it
(``migrations/access_record.sql``). Names are copied into it, so that it outlives what they name.
Only ``replview access forget`` drops its months, which is recorded too.
"""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from replview.store.fields import Table


class MaskRule(Table):
    """Masks the columns it matches (``store.read.mask_rules``); rules add up."""

    class When(models.TextChoices):
        #: Before it is stored: it is not kept, and what was stored before is shown to nobody.
        INGEST = "ingest"
        #: On display: it is kept, and shown to nobody.
        DISPLAY = "display"

    #: None: every source.
    source = models.ForeignKey(
        "Source", null=True, blank=True, on_delete=models.CASCADE, related_name="mask_rules"
    )
    #: ``schema.table``, where ``*`` stands for any characters; without a dot: in any schema.
    table_pattern = models.TextField(default="*")
    column_pattern = models.TextField(default="*")
    #: The type as ``format_type()`` writes it; empty: any.
    type_pattern = models.TextField(default="", blank=True)
    when = models.CharField(max_length=7, choices=When, default=When.INGEST)
    note = models.TextField(default="", blank=True)
    created_by = models.TextField(default="", blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        kind = f" of type {self.type_pattern}" if self.type_pattern else ""
        where = self.source.name if self.source else "every source"
        return f"{self.table_pattern}.{self.column_pattern}{kind}, {where}, {self.when}"


class AccessRecord(Table):
    """One act of somebody. It holds no value of a row: of a search its length and its columns."""

    class Action(models.TextChoices):
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
    #: Its name then; of a command the system's account, of a failed sign-in what was typed.
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
        managed = False
        ordering = ["-at", "-id"]


class SavedFilter(Table):
    """A view somebody wants to come back to: a page and its address's parameters."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_filters"
    )
    #: The name of the page's address: ``transactions``, ``find``.
    page = models.TextField()
    name = models.CharField(max_length=100)
    #: ``slot=shop/replview&tables=public.orders``.
    query = models.TextField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["user", "page", "name"], name="saved_filter_by_name")
        ]


class ApiToken(Table):
    """Lets a program use the API in somebody's name; only a digest of it is kept."""

    class Scope(models.TextChoices):
        """What the token may be used for; never for more than its user may do."""

        #: ``/metrics``, and how long each check of ``/readyz`` took.
        METRICS = "metrics"
        #: Whatever is only read.
        READ = "read"
        #: And exports: asked for, cancelled.
        EXPORT = "export"
        #: And whatever changes something.
        OPERATE = "operate"

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens"
    )
    name = models.CharField(max_length=100)
    #: SHA-256 of the token, in hexadecimal.
    digest = models.CharField(max_length=64, unique=True)
    #: Its first characters, to tell tokens apart.
    hint = models.CharField(max_length=12)
    #: The database's default is for a version of before, which runs on while the store is migrated.
    scope = models.CharField(max_length=7, choices=Scope, default=Scope.READ, db_default=Scope.READ)
    created_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField(null=True)
    #: None: until it is revoked.
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="api_token_by_name")]


class Grant(Table):
    """A person's, or a group's, right to see a source and tables of it."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="grants"
    )
    group = models.ForeignKey(
        "auth.Group", null=True, on_delete=models.CASCADE, related_name="grants"
    )
    #: None: every source there is or will be.
    source = models.ForeignKey(
        "store.Source", null=True, on_delete=models.CASCADE, related_name="grants"
    )
    #: ``schema.table`` with ``*`` for any letters; empty: all tables.
    tables = ArrayField(models.TextField(), default=list, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    #: Whose act it was, by name; empty: replview's own.
    created_by = models.TextField(default="", blank=True)

    class Meta:
        db_table = "rights_grant"
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(user__isnull=False, group__isnull=True)
                | models.Q(user__isnull=True, group__isnull=False),
                name="grant_to_one",
            )
        ]

    def __str__(self) -> str:
        where = self.source.name if self.source else "every source"
        return f"{where}: {', '.join(self.tables) or 'all tables'}"


class SetupCode(Table):
    """Lets somebody make the first admin, once and soon; only a digest of it is kept."""

    #: SHA-256 of the code, in hexadecimal.
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)


class Identity(Table):
    """An account as a single sign-on provider knows it."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities"
    )
    issuer = models.TextField()
    #: The provider's own name of it, which never changes.
    subject = models.TextField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="identity_by_subject")
        ]
