"""Tables as Relation messages describe them, and the versions of their shape."""

from django.db import models
from django.utils import timezone

from replview.store.fields import LSNField
from replview.store.models.seen import SeenOfRelation, SeenOfSlot


class Relation(models.Model):
    """A table of a slot's stream, whatever its shape at the moment."""

    slot = models.ForeignKey("Slot", on_delete=models.CASCADE, related_name="relations")
    system_identifier = models.TextField()
    oid = models.BigIntegerField()
    #: As last seen; a version keeps the names of its time.
    schema = models.TextField()
    table = models.TextField()
    #: The shape in force now.
    current_version = models.ForeignKey(
        "RelationVersion", null=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = SeenOfSlot()

    class Meta:
        db_table = "relation"
        constraints = [
            models.UniqueConstraint(
                fields=["slot", "system_identifier", "oid"], name="relation_by_oid"
            )
        ]

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


class RelationVersion(models.Model):
    """One shape of a table: a flip back to an earlier shape is that shape again, not a new one."""

    relation = models.ForeignKey(Relation, on_delete=models.CASCADE, related_name="versions")
    #: 1 for the first shape seen.
    number = models.IntegerField()
    #: SHA-256 of names, columns and replica identity.
    digest = models.TextField()
    schema = models.TextField()
    table = models.TextField()
    #: DEFAULT, NOTHING, FULL or INDEX.
    replica_identity = models.TextField()
    #: ``[{"name", "type_oid", "type", "typmod", "key"}]`` in the stream's order.
    columns = models.JSONField()
    #: The columns a row is known by: the replica identity's, or under FULL the primary key as the
    #: source's catalog told it. Empty: rows cannot be told apart.
    key_columns = models.JSONField(default=list)
    first_lsn = LSNField(null=True)
    first_xid = models.BigIntegerField(null=True)
    first_seen_at = models.DateTimeField(default=timezone.now)
    #: ``[{"lsn", "xid", "at"}]``: each time this shape came into force (again). A walsender sends
    #: Relation messages without a position; ``at`` is our clock when it was stored.
    intervals = models.JSONField(default=list)

    objects = SeenOfRelation()

    class Meta:
        db_table = "relation_version"
        constraints = [
            models.UniqueConstraint(fields=["relation", "digest"], name="version_by_digest"),
            models.UniqueConstraint(fields=["relation", "number"], name="version_by_number"),
        ]


class TypeName(models.Model):
    """A type's name as a Type message or the source's catalog gave it."""

    slot = models.ForeignKey("Slot", on_delete=models.CASCADE, related_name="type_names")
    system_identifier = models.TextField()
    oid = models.BigIntegerField()
    schema = models.TextField()
    name = models.TextField()

    class Meta:
        db_table = "type_name"
        constraints = [
            models.UniqueConstraint(fields=["slot", "system_identifier", "oid"], name="type_by_oid")
        ]
