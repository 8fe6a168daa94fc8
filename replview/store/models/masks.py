"""Which columns' values nobody may see, or nobody may keep."""

from django.db import models
from django.utils import timezone


class MaskRule(models.Model):
    """A rule that masks the columns it matches; ``store.masks`` says what a pattern matches.

    Rules add up: a column that any of them matches is masked.
    """

    class When(models.TextChoices):
        """Where the value is taken away."""

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
        db_table = "mask_rule"
        ordering = ["id"]

    def __str__(self) -> str:
        kind = f" of type {self.type_pattern}" if self.type_pattern else ""
        where = self.source.name if self.source else "every source"
        return f"{self.table_pattern}.{self.column_pattern}{kind}, {where}, {self.when}"
