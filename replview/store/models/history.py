"""Models of the record itself: tables, the versions of their shape, transactions and changes."""

from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.utils import timezone

from replview.store.fields import CharCodeField, LSNField, Table, index_where
from replview.store.models.seen import SeenOfIncarnation, SeenOfRelation, SeenOfSlot
from replview.store.models.sums import RowCounts


class Relation(Table):
    """A table of a slot's stream, whatever its shape at the moment."""

    slot = models.ForeignKey("Slot", on_delete=models.CASCADE, related_name="relations")
    system_identifier = models.TextField()
    oid = models.BigIntegerField()
    #: Names as last received; each version has the names of its time.
    schema = models.TextField()
    table = models.TextField()
    #: Shape that is in force now.
    current_version = models.ForeignKey(
        "RelationVersion", null=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = SeenOfSlot()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["slot", "system_identifier", "oid"], name="relation_by_oid"
            )
        ]

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


class RelationVersion(Table):
    """One shape of a table. A return to an earlier shape is that shape again, not a new one."""

    relation = models.ForeignKey(Relation, on_delete=models.CASCADE, related_name="versions")
    #: Number of the shape; 1 for the first one.
    number = models.IntegerField()
    #: SHA-256 of names, columns and replica identity; with ``-1`` and so on appended for a shape
    #: that looks the same but has a column that was made anew.
    digest = models.TextField()
    schema = models.TextField()
    table = models.TextField()
    #: DEFAULT, NOTHING, FULL or INDEX.
    replica_identity = models.TextField()
    #: ``[{"name", "type_oid", "type", "typmod", "key"}]`` in the stream's order.
    columns = models.JSONField()
    #: Columns of the replica identity, or under FULL of the primary key; empty: rows cannot be
    #: identified.
    key_columns = models.JSONField(default=list)
    first_lsn = LSNField(null=True)
    first_xid = models.BigIntegerField(null=True)
    first_seen_at = models.DateTimeField(default=timezone.now)
    #: ``[{"lsn", "xid", "at"}]``: each time this shape came into force (again). A walsender sends
    #: Relation messages without a position; ``at`` is the local time when it was stored. With
    #: ``"rolled_back": true`` it never came into force: its (sub)transaction was rolled back.
    intervals = models.JSONField(default=list)
    #: ``{column: [number, transaction, file]}``: facts of the source's catalog about each column
    #: while the shape was in force (``catalog.stream_shape``). The file is missing for a column
    #: altered later, and the list is empty for one that was dropped or renamed by then.
    made = models.JSONField(null=True)

    objects = SeenOfRelation()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["relation", "digest"], name="version_by_digest"),
            models.UniqueConstraint(fields=["relation", "number"], name="version_by_number"),
        ]


class TypeName(Table):
    """The name of a type, from a Type message or the source's catalog."""

    slot = models.ForeignKey("Slot", on_delete=models.CASCADE, related_name="type_names")
    system_identifier = models.TextField()
    oid = models.BigIntegerField()
    schema = models.TextField()
    name = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["slot", "system_identifier", "oid"], name="type_by_oid")
        ]


class Transaction(RowCounts):
    """A transaction as a slot's stream sent it; its row grows while it is open.

    The identifier is assigned when the transaction is first received and defines no order: its
    upper bits are the hour of that moment, so that ranges of identifiers are ranges of time
    (``store.write.partitions``). History's order is ``commit_seq``.
    """

    class State(models.TextChoices):
        """The state of the transaction in its incarnation; DISCARDED ones are hidden and purged."""

        RECEIVING = "receiving"
        STREAMING = "streaming"
        PREPARED = "prepared"
        COMMITTED = "committed"
        ABORTED = "aborted"
        ROLLED_BACK = "rolled back"
        #: A non-transactional logical message, which has a row of its own.
        MESSAGE = "message"
        #: Left out by somebody's decision, because it could not be stored; it has its place in
        #: history.
        SKIPPED = "skipped"
        #: Prepared in an incarnation of the slot that ended before it: its outcome is unknown.
        UNKNOWN = "unknown"
        #: A baseline's rows, as of the position ``commit_lsn``; its commit_seq is from when it was
        #: stored.
        SNAPSHOT = "snapshot"
        #: A baseline's rows while the table is being read; hidden.
        COPYING = "copying"
        DISCARDED = "discarded"

    id = models.BigIntegerField(primary_key=True)
    incarnation = models.ForeignKey(
        "SlotIncarnation", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    #: Place in history, without holes; None until committed.
    commit_seq = models.BigIntegerField(null=True)
    xid = models.BigIntegerField(null=True)
    gid = models.TextField(null=True)
    state = models.TextField(choices=State)
    #: True when streamed while in progress (larger than logical_decoding_work_mem).
    streamed = models.BooleanField(default=False)

    first_lsn = LSNField(null=True)
    prepare_lsn = LSNField(null=True)
    #: Position of the commit's (or COMMIT PREPARED's, abort's, ROLLBACK PREPARED's) record.
    commit_lsn = LSNField(null=True)
    #: End of that record: the position to confirm.
    end_lsn = LSNField(null=True)
    #: Time by the source's clock; None where unknown or not finite (``context`` has it then).
    commit_time = models.DateTimeField(null=True)
    prepared_at = models.DateTimeField(null=True)
    #: End of an aborted or rolled-back transaction, by the source's clock if it was sent.
    ended_at = models.DateTimeField(null=True)

    origin = models.TextField(null=True)
    actor = models.TextField(null=True)
    #: ``claimed`` (the application's message said so), ``stamped`` (the database did) or
    #: ``perhaps`` (the message may have been in a subtransaction that was rolled back).
    actor_grade = models.TextField(null=True)
    context = models.JSONField(null=True)
    #: Actors of the changes, where not all are ``actor``'s: ``[{"seq", "actor", "grade"}, …]``,
    #: each from that change on. An actor's first entry has ``counts`` (inserts, updates, deletes,
    #: truncates, messages) and ``relations`` in the form below.
    actors = models.JSONField(null=True)

    messages = models.BigIntegerField(default=0)
    #: Sum of the lengths of the pgoutput messages.
    size_bytes = models.BigIntegerField(default=0)
    #: ``{relation id: [inserts, updates, deletes, truncates]}``.
    relations = models.JSONField(default=dict)
    #: Changes of aborted subtransactions, which the counters above do not include.
    aborted_changes = models.BigIntegerField(default=0)

    #: Local times at which the first message was received, and the row last stored.
    received_at = models.DateTimeField()
    stored_at = models.DateTimeField(null=True)

    objects = SeenOfIncarnation()

    @property
    def name(self) -> str:
        """Return the gid, or else the xid, to show as the transaction's name."""
        return self.gid or str(self.xid or "unknown")

    @property
    def changes(self) -> int:
        """Return the number of changes and messages that count; for an aborted one, of all."""
        return self.inserts + self.updates + self.deletes + self.truncates + self.messages

    @property
    def received(self) -> int:
        """Return the number of changes received, with rolled-back ones: the last one's ``seq``."""
        return self.changes + self.aborted_changes

    class Meta:
        indexes = [
            index_where(
                "transaction_open", "incarnation", "state",
                state__in=["receiving", "streaming", "prepared", "discarded"],
            ),
            index_where("transaction_gid", "gid", gid__isnull=False),
            models.Index(
                fields=["incarnation", "commit_lsn"],
                include=["id"],
                name="transaction_was_seen",
                condition=models.Q(
                    models.Q(streamed=True) | models.Q(gid__isnull=False),
                    commit_seq__isnull=False,
                ),
            ),
            models.Index(fields=["xid"], name="transaction_xid"),
            index_where(
                "transaction_ended", "incarnation", "stored_at",
                state__in=["aborted", "rolled back", "unknown"],
            ),
            # These find the transactions of one actor, of one origin, and two-phase ones, in order.
            index_where(
                "transaction_by_actor", "incarnation", "actor", "commit_seq",
                actor__isnull=False, commit_seq__isnull=False,
            ),
            GinIndex(
                OpClass("actors", "jsonb_path_ops"),
                name="transaction_by_actors",
                condition=models.Q(actors__isnull=False),
            ),
            index_where(
                "transaction_by_origin", "incarnation", "origin", "commit_seq",
                origin__isnull=False, commit_seq__isnull=False,
            ),
            index_where(
                "transaction_two_phase", "incarnation", "commit_seq",
                gid__isnull=False, commit_seq__isnull=False,
            ),
            # This index finds transactions whose changes do not count.
            models.Index(
                fields=["id"],
                name="transaction_uncounted",
                condition=~models.Q(state__in=["committed", "snapshot", "message"]),
            ),
            # This index finds transactions that ended after they were visible as open.
            models.Index(
                fields=["stored_at"],
                name="transaction_was_open",
                condition=models.Q(
                    models.Q(streamed=True) | models.Q(gid__isnull=False),
                    state__in=["committed", "aborted", "rolled back", "skipped", "unknown"],
                ),
            ),
        ]  # fmt: skip
        constraints = [
            models.UniqueConstraint(
                fields=["incarnation", "commit_seq"],
                name="transaction_in_order",
                condition=models.Q(commit_seq__isnull=False),
            )
        ]


class Transition(Table):
    """A change of state of a streamed or two-phase transaction; a plain one has none."""

    transaction_id = models.BigIntegerField()
    #: New state; the first one is ``streaming`` or ``prepared``.
    state = models.TextField()
    #: Position in the WAL; None where the stream does not contain it (an abort before protocol 4).
    lsn = LSNField(null=True)
    #: Time by the source's clock; None where the stream does not contain it.
    source_time = models.DateTimeField(null=True)
    #: Local time when it was stored.
    recorded_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["transaction_id"], name="transition_by_transaction")]


class Change(Table):
    """One change of a row, a truncation of one table, or a logical message.

    ``old`` and ``new`` map column names to the server's exact text as a JSON string; JSON null is
    SQL NULL; an absent column was not sent. An object in a value's place is a marked form:
    ``{"$binary": base64, "$type": oid}`` (binary format, not decoded), ``{"$bytes": base64,
    "$type": oid}`` (bytes that are not text in the stream's encoding), ``{"$aside": characters}``
    (in ``large_value``), ``{"$too_large": bytes, "$sha256": digits}`` (not kept),
    ``{"$masked": true}``, ``{"$erased": true, "$on": date}``.
    The row's key is not stored twice: it is the version's ``key_columns`` looked up in ``old``,
    then ``new``; ``key_hash`` finds it.
    """

    pk = models.CompositePrimaryKey("transaction_id", "seq")
    transaction_id = models.BigIntegerField()
    #: Number of the change in the transaction, from 1, in order of arrival.
    seq = models.IntegerField()
    lsn = LSNField()
    #: Subtransaction, where the stream contains it.
    subxid = models.BigIntegerField(null=True)
    relation_id = models.BigIntegerField(null=True)
    version_id = models.BigIntegerField(null=True)
    #: I, U, D, T, M or S (snapshot).
    op = CharCodeField()
    #: Form of ``old``: K (the key) or O (the whole old row).
    old_kind = CharCodeField(null=True)
    old = models.JSONField(null=True)
    new = models.JSONField(null=True)
    #: 64-bit hash of the key after the change (before it, for a delete).
    key_hash = models.BigIntegerField(null=True)
    #: 64-bit hash of the key before the change, where the change altered the key.
    old_key_hash = models.BigIntegerField(null=True)

    class Meta:
        managed = False


class LargeValue(Table):
    """A value too long for JSONB (268,435,455 characters), in pieces."""

    pk = models.CompositePrimaryKey("transaction_id", "seq", "side", "column", "piece")
    transaction_id = models.BigIntegerField()
    seq = models.IntegerField()
    #: ``old`` or ``new``.
    side = models.TextField()
    column = models.TextField()
    piece = models.IntegerField()
    content = models.TextField()


class AbortedSubtransaction(Table):
    """A tombstone: the changes of this subtransaction do not count and are hidden on reading.

    If it has the transaction's own ``xid``, the whole transaction aborted: its changes are shown,
    marked as aborted.
    """

    pk = models.CompositePrimaryKey("transaction_id", "subxid")
    transaction_id = models.BigIntegerField()
    subxid = models.BigIntegerField()
    abort_lsn = LSNField(null=True)
    aborted_at = models.DateTimeField(null=True)
    #: Number of changes that were rolled back; None where they were not counted.
    changes = models.BigIntegerField(null=True)
    #: True when its rows were deleted from ``change``.
    swept = models.BooleanField(default=False)

    class Meta:
        indexes = [index_where("tombstone_unswept", "transaction_id", swept=False)]
