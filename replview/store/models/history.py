"""The record itself: tables with the versions of their shape, transactions and their changes."""

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
    #: As last seen; a version keeps the names of its time.
    schema = models.TextField()
    table = models.TextField()
    #: The shape in force now.
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
    """One shape of a table: a flip back to an earlier shape is that shape again, not a new one."""

    relation = models.ForeignKey(Relation, on_delete=models.CASCADE, related_name="versions")
    #: 1 for the first shape seen.
    number = models.IntegerField()
    #: SHA-256 of names, columns and replica identity; ``-1`` and so on behind it for one that looks
    #: the same but has a column that was made anew.
    digest = models.TextField()
    schema = models.TextField()
    table = models.TextField()
    #: DEFAULT, NOTHING, FULL or INDEX.
    replica_identity = models.TextField()
    #: ``[{"name", "type_oid", "type", "typmod", "key"}]`` in the stream's order.
    columns = models.JSONField()
    #: The identity's, or under FULL the primary key's; empty: rows cannot be told apart.
    key_columns = models.JSONField(default=list)
    first_lsn = LSNField(null=True)
    first_xid = models.BigIntegerField(null=True)
    first_seen_at = models.DateTimeField(default=timezone.now)
    #: ``[{"lsn", "xid", "at"}]``: each time this shape came into force (again). A walsender sends
    #: Relation messages without a position; ``at`` is our clock when it was stored. With
    #: ``"rolled_back": true`` it never did: its (sub)transaction was rolled back.
    intervals = models.JSONField(default=list)
    #: ``{column: [number, transaction, file]}``: what the source's catalog told of each while the
    #: shape was in force (``catalog.stream_shape``); without the file of one altered later, and
    #: ``[]`` of one that was dropped or renamed by then.
    made = models.JSONField(null=True)

    objects = SeenOfRelation()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["relation", "digest"], name="version_by_digest"),
            models.UniqueConstraint(fields=["relation", "number"], name="version_by_number"),
        ]


class TypeName(Table):
    """A type's name as a Type message or the source's catalog gave it."""

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
    """A transaction as a slot's stream told it; a row that grows while it is open.

    The identifier is given when a transaction is first seen and orders nothing: its upper bits
    are the hour of that moment, so that ranges of identifiers are ranges of time
    (``store.write.partitions``). History's order is ``commit_seq``.
    """

    class State(models.TextChoices):
        """Where in its incarnation the transaction is; DISCARDED ones are hidden and swept away."""

        RECEIVING = "receiving"
        STREAMING = "streaming"
        PREPARED = "prepared"
        COMMITTED = "committed"
        ABORTED = "aborted"
        ROLLED_BACK = "rolled back"
        #: A non-transactional logical message: a record of its own.
        MESSAGE = "message"
        #: Left out by somebody's decision, because it could not be stored; it keeps its place.
        SKIPPED = "skipped"
        #: Prepared in an incarnation of the slot that ended before it did: nobody can tell its end.
        UNKNOWN = "unknown"
        #: A baseline's rows: of the position ``commit_lsn``, placed where it was stored.
        SNAPSHOT = "snapshot"
        #: The same while it is being read; hidden.
        COPYING = "copying"
        DISCARDED = "discarded"

    id = models.BigIntegerField(primary_key=True)
    incarnation = models.ForeignKey(
        "SlotIncarnation", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    #: Its place in history, without holes; None until committed.
    commit_seq = models.BigIntegerField(null=True)
    xid = models.BigIntegerField(null=True)
    gid = models.TextField(null=True)
    state = models.TextField(choices=State)
    #: Streamed while in progress (larger than logical_decoding_work_mem).
    streamed = models.BooleanField(default=False)

    first_lsn = LSNField(null=True)
    prepare_lsn = LSNField(null=True)
    #: The commit's (or COMMIT PREPARED's, abort's, ROLLBACK PREPARED's) record.
    commit_lsn = LSNField(null=True)
    #: Where that record ends: the position to confirm.
    end_lsn = LSNField(null=True)
    #: The source's clock; None where unknown or not finite (then told in ``context``).
    commit_time = models.DateTimeField(null=True)
    prepared_at = models.DateTimeField(null=True)
    #: When an aborted or rolled-back one ended, by the source's clock if it told.
    ended_at = models.DateTimeField(null=True)

    origin = models.TextField(null=True)
    actor = models.TextField(null=True)
    #: ``claimed`` (the application's message said so), ``stamped`` (the database did) or
    #: ``perhaps`` (the message may have been in a subtransaction that was rolled back).
    actor_grade = models.TextField(null=True)
    context = models.JSONField(null=True)
    #: Whose its changes are, where not all are ``actor``'s: ``[{"seq", "actor", "grade"}, …]``,
    #: each from that change on. An actor's first entry has ``counts`` (inserts, updates, deletes,
    #: truncates, messages) and ``relations`` like those below.
    actors = models.JSONField(null=True)

    messages = models.BigIntegerField(default=0)
    #: Sum of the lengths of its pgoutput messages.
    size_bytes = models.BigIntegerField(default=0)
    #: ``{relation id: [inserts, updates, deletes, truncates]}``.
    relations = models.JSONField(default=dict)
    #: Changes that aborted subtransactions took away; not counted in the columns above.
    aborted_changes = models.BigIntegerField(default=0)

    #: Our clock: first message received; row last stored.
    received_at = models.DateTimeField()
    stored_at = models.DateTimeField(null=True)

    objects = SeenOfIncarnation()

    @property
    def name(self) -> str:
        return self.gid or str(self.xid or "unknown")

    @property
    def changes(self) -> int:
        """Its changes and messages that count; of one that aborted, all it had made."""
        return self.inserts + self.updates + self.deletes + self.truncates + self.messages

    @property
    def received(self) -> int:
        """All that came, also what savepoints took back: the last one's ``seq``."""
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
            # The transactions of one actor, one origin, and those of two phases, in order.
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
            # Those whose changes do not count, where these have not been deleted.
            models.Index(
                fields=["id"],
                name="transaction_uncounted",
                condition=~models.Q(state__in=["committed", "snapshot", "message"]),
            ),
            # Those that were open long enough to be seen so, once they have ended.
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
    """A streamed or two-phase transaction went from one state to another; a plain one has none."""

    transaction_id = models.BigIntegerField()
    #: The state it went to; the first is ``streaming`` or ``prepared``.
    state = models.TextField()
    #: Where in the WAL; None where the stream did not say (an abort before protocol 4).
    lsn = LSNField(null=True)
    #: By the source's clock; None where the stream did not say.
    source_time = models.DateTimeField(null=True)
    #: By our clock, when it was stored.
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
    #: Its ordinal in the transaction, from 1, in arrival order.
    seq = models.IntegerField()
    lsn = LSNField()
    #: The subtransaction, where the stream named one.
    subxid = models.BigIntegerField(null=True)
    relation_id = models.BigIntegerField(null=True)
    version_id = models.BigIntegerField(null=True)
    #: I, U, D, T, M or S (snapshot).
    op = CharCodeField()
    #: What ``old`` is: K (the key) or O (the whole old row).
    old_kind = CharCodeField(null=True)
    old = models.JSONField(null=True)
    new = models.JSONField(null=True)
    #: 64-bit hash of the key after the change (before it, for a delete).
    key_hash = models.BigIntegerField(null=True)
    #: The same of the key before the change, where the change moved it.
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
    """A tombstone: the changes of this subtransaction do not count and are hidden on read. One of
    the transaction's own ``xid`` says that the whole of it aborted: its changes are shown, marked.
    """

    pk = models.CompositePrimaryKey("transaction_id", "subxid")
    transaction_id = models.BigIntegerField()
    subxid = models.BigIntegerField()
    abort_lsn = LSNField(null=True)
    aborted_at = models.DateTimeField(null=True)
    #: How many changes it took away; None where it was not counted.
    changes = models.BigIntegerField(null=True)
    #: Its rows were deleted from ``change``.
    swept = models.BooleanField(default=False)

    class Meta:
        indexes = [index_where("tombstone_unswept", "transaction_id", swept=False)]
