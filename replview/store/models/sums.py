"""Models of sums over the record, so that a table or an actor is found without reading all of it.

They are filled in the background (``store.sums.activity``), one block of a thousand places in
history at a time, from transactions whose place is final: never on the write path, and exact.
"""

from django.db import models

from replview.store.fields import LSNField, Table


class RowCounts(Table):
    """Numbers of inserts, updates and deletes of rows, and of truncations of tables."""

    inserts = models.BigIntegerField(default=0)
    updates = models.BigIntegerField(default=0)
    deletes = models.BigIntegerField(default=0)
    truncates = models.BigIntegerField(default=0)

    class Meta:
        abstract = True


class ActivityMark(Table):
    """The progress of an incarnation's sums; later transactions are read from the record itself."""

    incarnation_id = models.BigIntegerField(primary_key=True)
    #: Last commit_seq in the sums; always the end of a block.
    rolled_seq = models.BigIntegerField(default=0)


class HistoryBlock(RowCounts):
    """The sums of a block in one incarnation's history: commit_seq 1000 n to 1000 n + 999."""

    pk = models.CompositePrimaryKey("incarnation_id", "block")
    incarnation_id = models.BigIntegerField()
    #: ``commit_seq // 1000``.
    block = models.BigIntegerField()
    #: First and last time by the source's clock; for a message without one, the time it was stored.
    #: None: the block is empty.
    first_time = models.DateTimeField(null=True)
    last_time = models.DateTimeField(null=True)
    #: Least and greatest commit LSN in the block, without snapshots.
    first_lsn = LSNField(null=True)
    last_lsn = LSNField(null=True)
    transactions = models.BigIntegerField(default=0)
    messages = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)
    #: Size of its largest transaction, so that a search for large ones can skip the block.
    max_changes = models.BigIntegerField(default=0)
    max_size_bytes = models.BigIntegerField(default=0)
    #: Number of its transactions by state, ``{"committed": 998, …}``.
    states = models.JSONField(default=dict)


class RelationActivity(RowCounts):
    """The changes of one shape of one table within a block."""

    pk = models.CompositePrimaryKey("relation_id", "incarnation_id", "block", "version_id")
    relation_id = models.BigIntegerField()
    incarnation_id = models.BigIntegerField()
    block = models.BigIntegerField()
    #: Version; 0 where the record does not have it.
    version_id = models.BigIntegerField(default=0)
    #: Number of transactions that changed the table, counted under the first version they used.
    transactions = models.BigIntegerField(default=0)
    snapshots = models.BigIntegerField(default=0)

    class Meta:
        indexes = [models.Index(fields=["incarnation_id", "block"], name="activity_of_block")]


class ActorActivity(RowCounts):
    """The changes of one actor to one table within a day (UTC, by the commit's time)."""

    pk = models.CompositePrimaryKey("incarnation_id", "actor", "day", "relation_id", "grade")
    incarnation_id = models.BigIntegerField()
    #: Name of the actor; empty: unknown.
    actor = models.TextField()
    #: ``claimed``, ``stamped``, or empty for unknown.
    grade = models.TextField(default="")
    day = models.DateField()
    #: Table; 0: all of the actor's transactions together, also those without any table.
    relation_id = models.BigIntegerField()
    transactions = models.BigIntegerField(default=0)
    messages = models.BigIntegerField(default=0)
    first_time = models.DateTimeField(null=True)
    last_time = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["incarnation_id", "day"], name="actor_activity_by_day"),
            models.Index(fields=["relation_id", "day"], name="actor_activity_by_table"),
        ]


class MinuteMark(Table):
    """The progress of an incarnation in ``RelationMinute`` and ``TransactionSizeMinute``."""

    incarnation_id = models.BigIntegerField(primary_key=True)
    #: Last commit_seq that is included.
    rolled_seq = models.BigIntegerField(default=0)


class RelationMinute(Table):
    """The changes committed to one table in one minute (by the commit's time), for rates."""

    pk = models.CompositePrimaryKey("incarnation_id", "relation_id", "minute")
    incarnation_id = models.BigIntegerField()
    relation_id = models.BigIntegerField()
    minute = models.DateTimeField()
    transactions = models.BigIntegerField(default=0)
    changes = models.BigIntegerField(default=0)
    #: Bytes, shared among a transaction's tables by their changes: exact where it changed one
    #: table.
    size_bytes = models.BigIntegerField(default=0)

    class Meta:
        indexes = [
            models.Index(fields=["incarnation_id", "minute"], name="relation_minute_by_time")
        ]


class TransactionSizeMinute(Table):
    """The number of transactions of one size that were committed in one minute."""

    pk = models.CompositePrimaryKey("incarnation_id", "minute", "power")
    incarnation_id = models.BigIntegerField()
    minute = models.DateTimeField()
    #: Size: 2^power up to 2^(power + 1) - 1 changes; -1: no changes.
    power = models.SmallIntegerField()
    transactions = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)
