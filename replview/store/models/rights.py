"""Who may see what: grants on sources and tables, and the code that makes the first admin."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone


class Grant(models.Model):
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


class SetupCode(models.Model):
    """Lets somebody make the first admin, once and soon; only a digest of it is kept."""

    #: SHA-256 of the code, in hexadecimal.
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "setup_code"


class Identity(models.Model):
    """An account as a single sign-on provider knows it."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities"
    )
    issuer = models.TextField()
    #: The provider's own name of it, which never changes.
    subject = models.TextField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "identity"
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="identity_by_subject")
        ]
