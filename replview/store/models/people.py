"""What belongs to a person: filters they saved, tokens their programs use."""

from django.conf import settings
from django.db import models
from django.utils import timezone


class SavedFilter(models.Model):
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
        db_table = "saved_filter"
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["user", "page", "name"], name="saved_filter_by_name")
        ]


class ApiToken(models.Model):
    """Lets a program use the API in somebody's name; only a digest of it is kept."""

    class Scope(models.TextChoices):
        """What it is good for; never more than its user may."""

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
        db_table = "api_token"
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="api_token_by_name")]
