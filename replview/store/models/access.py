"""Models of accounts and privacy: identities, grants, tokens, filters, masks, the access record.

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
    """A rule that masks the columns it matches (``store.read.mask_rules``); rules add up."""

    class When(models.TextChoices):
        #: Mask before storing: no value is kept, and values stored before are shown to nobody.
        INGEST = "ingest"
        #: Mask on display: values are stored, and shown to nobody.
        DISPLAY = "display"

    #: Source that the rule applies to; None: every source.
    source = models.ForeignKey(
        "Source", null=True, blank=True, on_delete=models.CASCADE, related_name="mask_rules"
    )
    #: ``schema.table``, where ``*`` stands for any characters; without a dot, any schema matches.
    table_pattern = models.TextField(default="*")
    column_pattern = models.TextField(default="*")
    #: Type as ``format_type()`` writes it; empty: any type.
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
    """One act of a person.

    It contains no value of a row: only the length and columns of a search.
    """

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

    #: A sequence assigns it: of two records of the same time, the later one has the higher number.
    id = models.BigAutoField(primary_key=True)
    #: Time by the store's clock.
    at = models.DateTimeField()
    action = models.TextField(choices=Action)
    #: Number of the account; None: nobody was signed in, or a command did it.
    user_id = models.BigIntegerField(null=True)
    #: Name of the account at that time; the system's account of a command; the text that was
    #: entered in a failed sign-in.
    user_name = models.TextField(default="", blank=True)
    via = models.TextField(choices=Via)
    #: Client address, as the web server saw it; empty for a command.
    address = models.TextField(default="", blank=True)
    #: Identifier of the request, which the web server's log may have too.
    request_id = models.TextField(default="", blank=True)
    #: Name of the page or call (not its URL, which may contain a row's key).
    page = models.TextField(default="", blank=True)
    #: The object of the act, in words.
    subject = models.TextField(default="", blank=True)
    source_id = models.BigIntegerField(null=True)
    source_name = models.TextField(default="", blank=True)
    relation_ids = ArrayField(models.BigIntegerField(), default=list)
    #: ``schema.table`` of the relations, as they were named at that time.
    tables = ArrayField(models.TextField(), default=list)
    #: Further facts: ``rows``, ``transaction``, ``columns``, ``characters``, ``format`` …
    details = models.JSONField(default=dict)

    class Meta:
        managed = False
        ordering = ["-at", "-id"]


class SavedFilter(Table):
    """A view that a person has saved: a page, and the parameters of its URL."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_filters"
    )
    #: Name of the page's URL pattern: ``transactions``, ``find``.
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
    """A token with which a program uses the API as a user; only its digest is stored."""

    class Scope(models.TextChoices):
        """The requests that a token allows, within the rights of its user."""

        #: ``/metrics``, and the durations of the checks in ``/readyz``.
        METRICS = "metrics"
        #: All requests that only read.
        READ = "read"
        #: Also creating and cancelling exports.
        EXPORT = "export"
        #: Also all requests that change something.
        OPERATE = "operate"

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens"
    )
    name = models.CharField(max_length=100)
    #: SHA-256 of the token, in hexadecimal.
    digest = models.CharField(max_length=64, unique=True)
    #: First characters of the token, to identify it.
    hint = models.CharField(max_length=12)
    #: The database's default serves an earlier version that still runs while the store is migrated.
    scope = models.CharField(max_length=7, choices=Scope, default=Scope.READ, db_default=Scope.READ)
    created_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField(null=True)
    #: Time of expiry; None: it never expires.
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="api_token_by_name")]


class Grant(Table):
    """The right of a user or a group to see a source, or some of its tables."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="grants"
    )
    group = models.ForeignKey(
        "auth.Group", null=True, on_delete=models.CASCADE, related_name="grants"
    )
    #: Source that may be seen; None: every source, now and in the future.
    source = models.ForeignKey(
        "store.Source", null=True, on_delete=models.CASCADE, related_name="grants"
    )
    #: ``schema.table``, where ``*`` stands for any characters; empty: all tables.
    tables = ArrayField(models.TextField(), default=list, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    #: Name of the account that created it; empty: replview itself.
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
    """A code with which the first admin is created, once and soon; only its digest is stored."""

    #: SHA-256 of the code, in hexadecimal.
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)


class AssignedPassword(Table):
    """The mark of an account whose password an admin set: its owner has to choose another one."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        primary_key=True,
        on_delete=models.CASCADE,
        related_name="assigned_password",
    )
    #: Time after which the password signs nobody in.
    expires_at = models.DateTimeField()


class SecondFactor(Table):
    """The authenticator app of an account, whose code is asked for after the password."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        primary_key=True,
        on_delete=models.CASCADE,
        related_name="second_factor",
    )
    #: The secret that the app has too, in base32, encrypted (``store.secrets``).
    sealed_secret = models.TextField()
    #: The latest 30 seconds, counted since 1970, whose code was used: no earlier one is accepted.
    last_step = models.BigIntegerField()
    #: Number of wrong codes since the last right one, from all addresses.
    failures = models.IntegerField(default=0)
    #: SHA-256 of each recovery code that is not used yet, in hexadecimal.
    recovery_digests = ArrayField(models.CharField(max_length=64))
    created_at = models.DateTimeField(default=timezone.now)


class Identity(Table):
    """An account's identity at a single sign-on provider."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities"
    )
    issuer = models.TextField()
    #: The provider's identifier of the account, which never changes.
    subject = models.TextField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="identity_by_subject")
        ]
