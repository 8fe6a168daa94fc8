"""What the record holds, summed up: a table or an actor is found in it without reading it all.

Filled behind the receivers (``store.sums.activity``), a block of a thousand places in history at a
time, from transactions whose place is final: never on the write path, and exact.
"""

from django.db import models

from replview.store.fields import LSNField, Table


class RowCounts(Table):
    """Changes of rows, by what they did, and tables truncated."""

    inserts = models.BigIntegerField(default=0)
    updates = models.BigIntegerField(default=0)
    deletes = models.BigIntegerField(default=0)
    truncates = models.BigIntegerField(default=0)

    class Meta:
        abstract = True


class ActivityMark(Table):
    """How far an incarnation is summed up; what follows is read from the record itself."""

    incarnation_id = models.BigIntegerField(primary_key=True)
    #: The last commit_seq that is in the sums; always the end of a block.
    rolled_seq = models.BigIntegerField(default=0)


class HistoryBlock(RowCounts):
    """A thousand places in one incarnation's history: commit_seq 1000 n to 1000 n + 999."""

    pk = models.CompositePrimaryKey("incarnation_id", "block")
    incarnation_id = models.BigIntegerField()
    #: ``commit_seq // 1000``.
    block = models.BigIntegerField()
    #: By the source's clock, of a message without one when it was stored. None: an empty block.
    first_time = models.DateTimeField(null=True)
    last_time = models.DateTimeField(null=True)
    #: The least and greatest commit LSN in it, snapshots left out.
    first_lsn = LSNField(null=True)
    last_lsn = LSNField(null=True)
    transactions = models.BigIntegerField(default=0)
    messages = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)
    #: Of its largest transaction, so that a search for large ones can leave the block out.
    max_changes = models.BigIntegerField(default=0)
    max_size_bytes = models.BigIntegerField(default=0)
    #: How many of its transactions are in which state, ``{"committed": 998, …}``.
    states = models.JSONField(default=dict)


class RelationActivity(RowCounts):
    """What happened to one shape of one table within a block."""

    pk = models.CompositePrimaryKey("relation_id", "incarnation_id", "block", "version_id")
    relation_id = models.BigIntegerField()
    incarnation_id = models.BigIntegerField()
    block = models.BigIntegerField()
    #: 0 where the record does not tell under which version.
    version_id = models.BigIntegerField(default=0)
    #: Transactions that touched the table, counted under the first version they touched.
    transactions = models.BigIntegerField(default=0)
    snapshots = models.BigIntegerField(default=0)

    class Meta:
        indexes = [models.Index(fields=["incarnation_id", "block"], name="activity_of_block")]


class ActorActivity(RowCounts):
    """What one actor did to one table within a day (UTC, by the commit's time)."""

    pk = models.CompositePrimaryKey("incarnation_id", "actor", "day", "relation_id", "grade")
    incarnation_id = models.BigIntegerField()
    #: Empty: nobody was named.
    actor = models.TextField()
    #: ``claimed``, ``stamped``, or empty for unknown.
    grade = models.TextField(default="")
    day = models.DateField()
    #: 0: all of their transactions together, also those that touched no table.
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
    """How far an incarnation of a slot is in ``RelationMinute`` and ``TransactionSizeMinute``."""

    incarnation_id = models.BigIntegerField(primary_key=True)
    #: The last commit_seq that is in them.
    rolled_seq = models.BigIntegerField(default=0)


class RelationMinute(Table):
    """What was committed to one table in one minute (by the commit's time), for rates."""

    pk = models.CompositePrimaryKey("incarnation_id", "relation_id", "minute")
    incarnation_id = models.BigIntegerField()
    relation_id = models.BigIntegerField()
    minute = models.DateTimeField()
    transactions = models.BigIntegerField(default=0)
    changes = models.BigIntegerField(default=0)
    #: Shared among a transaction's tables by their changes: exact where it touched one.
    size_bytes = models.BigIntegerField(default=0)

    class Meta:
        indexes = [
            models.Index(fields=["incarnation_id", "minute"], name="relation_minute_by_time")
        ]


class TransactionSizeMinute(Table):
    """How many transactions of which size were committed in one minute."""

    pk = models.CompositePrimaryKey("incarnation_id", "minute", "power")
    incarnation_id = models.BigIntegerField()
    minute = models.DateTimeField()
    #: Transactions with 2^power up to 2^(power + 1) - 1 changes; -1: with none.
    power = models.SmallIntegerField()
    transactions = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)
