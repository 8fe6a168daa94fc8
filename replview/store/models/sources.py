"""Models of sources, slots, their incarnations, publications over time, and quarantine."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from replview.store.fields import LSNField, Table, index_where
from replview.store.models.seen import SeenOfSlot, SeenSources, VisibleManager


class Source(Table):
    """A PostgreSQL cluster and database that replview reads."""

    name = models.CharField(max_length=63, unique=True)
    #: libpq connection string without a password; may be ``service=…`` or ``env:NAME``.
    conninfo = models.TextField()
    #: Password, encrypted with the instance's secret key; empty when the DSN contained none.
    sealed_password = models.TextField(default="", blank=True)
    #: Other place of the password: ``env:NAME`` or ``file:/path``; empty: none.
    password_ref = models.TextField(default="", blank=True)
    #: Time and author of the last change of address or password; None: unchanged.
    credentials_at = models.DateTimeField(null=True)
    credentials_by = models.TextField(default="", blank=True)
    #: Fleet file that declares the source and reverts changes by hand; empty: none.
    managed_by = models.TextField(default="", db_default="", blank=True)
    #: Time at which removal began: the source is deleted after its slots' records; None: it stays.
    removing_at = models.DateTimeField(null=True)
    #: True when made by ``replview watch``: the source is deleted when the watch ends.
    ephemeral = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)

    #: Facts of the server as last seen; None while it was never reached.
    server_version = models.IntegerField(null=True)
    system_identifier = models.TextField(null=True)
    timeline = models.IntegerField(null=True)
    encoding = models.TextField(null=True)
    in_recovery = models.BooleanField(null=True)
    max_slot_wal_keep_bytes = models.BigIntegerField(null=True)
    #: idle_replication_slot_timeout; 0: none, None: unknown, or before 18, which has none.
    idle_slot_timeout_seconds = models.IntegerField(null=True)
    #: True when a standby makes its primary keep the rows that its slots need.
    hot_standby_feedback = models.BooleanField(null=True)
    #: Fingerprint of the source's catalog at the last look at its publications; empty: none. A
    #: receiver looks at the catalog when it is another one.
    catalog_mark = models.TextField(default="", db_default="", blank=True)
    checked_at = models.DateTimeField(null=True)
    #: Why the source cannot be reached: a code of ``receiver.problems``, cause, remedy (often SQL).
    problem_code = models.TextField(default="", blank=True)
    problem_cause = models.TextField(default="", blank=True)
    problem_remedy = models.TextField(default="", blank=True)

    objects = SeenSources()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Slot(Table):
    """A replication slot that replview receives: its options, its receiver, its progress."""

    class Desired(models.TextChoices):
        RUNNING = "running"
        STOPPED = "stopped"
        REMOVING = "removing"

    class State(models.TextChoices):
        """The state that the receiver last reported."""

        STOPPED = "stopped"
        STARTING = "starting"
        STREAMING = "streaming"
        RECONNECTING = "reconnecting"
        FAILED = "failed"

    class Interface(models.TextChoices):
        #: A replication connection.
        WALSENDER = "walsender"
        #: SQL functions over an ordinary connection, where replication connections are refused.
        SQL = "sql"

    class Protect(models.TextChoices):
        """The side to protect when the WAL that the slot retains reaches its budget."""

        #: The source's disk: replview drops its own slot, and the record has a gap.
        DATABASE = "database"
        #: The record: alert, and go on retaining.
        RECORD = "record"

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="slots")
    name = models.CharField(max_length=63)
    #: Output plugin: ``pgoutput``, ``test_decoding`` or ``wal2json``.
    plugin = models.TextField(default="pgoutput")
    interface = models.CharField(max_length=9, choices=Interface, default=Interface.WALSENDER)
    publications = ArrayField(models.TextField(), default=list)
    #: Options of pgoutput in START_REPLICATION: proto_version, binary, messages, streaming,
    #: two_phase, origin. An absent key means the default for the server's version.
    options = models.JSONField(default=dict, blank=True)
    #: True when replview created the slot and may drop it.
    owned = models.BooleanField(default=True)
    #: True for a TEMPORARY slot, which ends with its connection (``replview watch``).
    temporary = models.BooleanField(default=False)
    #: Limit of retained WAL; None: added before budgets existed, or replview may not drop the slot.
    wal_budget_bytes = models.BigIntegerField(null=True)
    protect = models.CharField(max_length=8, choices=Protect, default=Protect.DATABASE)
    #: Seconds between transactional messages written to the source; None: none are written.
    heartbeat_seconds = models.IntegerField(null=True)
    #: Time of the last attempt to write one, successful or not.
    heartbeat_written_at = models.DateTimeField(null=True)
    #: ``{"schema.table": {"column": "drop" | "mask"}}``, applied before a value is stored.
    column_rules = models.JSONField(default=dict, blank=True)
    #: True when changes of aborted transactions and subtransactions are kept, marked.
    keep_aborted = models.BooleanField(default=False)
    #: Age in days after which whole days of the record are deleted; None: no limit.
    keep_for_days = models.IntegerField(null=True)
    #: Limit of the record's estimated size in the store; None: no limit.
    keep_at_most_bytes = models.BigIntegerField(null=True)
    created_at = models.DateTimeField(default=timezone.now)

    desired = models.CharField(max_length=12, choices=Desired, default=Desired.RUNNING)
    #: Raised when a receiver takes the slot over; a write with an older epoch changes nothing.
    epoch = models.BigIntegerField(default=0)
    lease_owner = models.TextField(default="", blank=True)
    #: The receiver's last heartbeat; it sends about one a second.
    heartbeat_at = models.DateTimeField(null=True)
    #: Facts that the receiver reported with its last heartbeat: ``batch_changes``, ``batch_bytes``,
    #: ``batch_seconds`` of its last store transaction, ``memory_bytes``.
    receiver_facts = models.JSONField(default=dict, blank=True)

    state = models.CharField(max_length=14, choices=State, default=State.STOPPED)
    state_since = models.DateTimeField(default=timezone.now)
    problem_code = models.TextField(default="", blank=True)
    problem_cause = models.TextField(default="", blank=True)
    problem_remedy = models.TextField(default="", blank=True)
    #: Time of the receiver's next attempt after a problem; None: it does not try again by itself.
    retry_at = models.DateTimeField(null=True)
    connected_at = models.DateTimeField(null=True)
    #: Number of tables in its publications when last seen; None where unknown.
    published_tables = models.IntegerField(null=True)
    #: Sentence about the last lapse of publication that a look found, and its time.
    lapse_text = models.TextField(default="", db_default="", blank=True)
    lapse_noted_at = models.DateTimeField(null=True)

    incarnation = models.ForeignKey(
        "SlotIncarnation", null=True, on_delete=models.SET_NULL, related_name="+"
    )
    #: Position up to which everything is in the store: the LSN confirmed to the server.
    checkpoint_lsn = LSNField(null=True)
    #: Last known position of the server (from a keepalive or data).
    server_lsn = LSNField(null=True)
    #: Counters of the current incarnation, moved with the checkpoint.
    transactions_stored = models.BigIntegerField(default=0)
    #: Total that only grows, including changes that were rolled back or discarded since.
    changes_stored = models.BigIntegerField(default=0)
    #: Number of these that savepoints, aborts and ROLLBACK PREPARED rolled back.
    changes_rolled_back = models.BigIntegerField(default=0, db_default=0)
    #: Number of these in half received transactions, which the server sent again.
    changes_discarded = models.BigIntegerField(default=0, db_default=0)
    bytes_stored = models.BigIntegerField(default=0)
    #: Raised by another writer that assigns a commit_seq (a baseline): the receiver reads that
    #: again.
    outside_writes = models.BigIntegerField(default=0)
    last_commit_time = models.DateTimeField(null=True)
    last_stored_at = models.DateTimeField(null=True)

    objects = VisibleManager()

    class Meta:
        ordering = ["source__name", "name"]
        constraints = [models.UniqueConstraint(fields=["source", "name"], name="slot_by_name")]

    def __str__(self) -> str:
        return f"{self.source.name}/{self.name}"

    @property
    def changes(self) -> int:
        """Return the number of stored changes that count."""
        return self.changes_stored - self.changes_rolled_back - self.changes_discarded


class SlotIncarnation(Table):
    """An incarnation of a slot on one cluster: LSNs compare only within it."""

    slot = models.ForeignKey(Slot, on_delete=models.CASCADE, related_name="incarnations")
    #: 1 for the slot's first incarnation.
    number = models.IntegerField()
    system_identifier = models.TextField()
    timeline = models.IntegerField()
    started_lsn = LSNField(null=True)
    started_at = models.DateTimeField(default=timezone.now)
    #: Reason why it began: ``created``, ``adopted``, ``recreated``, ``re-pointed``, ``temporary`` …
    reason = models.TextField()
    #: Last commit_seq assigned; assigned without holes under the slot row's lock.
    commit_seq = models.BigIntegerField(default=0)
    #: Last hour in the identifiers of its committed transactions.
    last_hour = models.IntegerField(db_default=0)
    #: False once a transaction that was not open before its commit had an earlier hour, as after
    #: the store's clock was set back.
    hours_in_order = models.BooleanField(db_default=True)

    objects = SeenOfSlot()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["slot", "number"], name="incarnation_by_number")
        ]


class PublicationLook(Table):
    """The tables that a slot's publications published, from one look to another.

    The stream does not say that, so the source's catalog is read; a new row begins at a difference.
    """

    slot = models.ForeignKey("Slot", on_delete=models.CASCADE, related_name="publication_looks")
    #: Times of the first and the last look that found this.
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    #: End of the source's WAL after the first look and before the last one; None: the row is from
    #: before these were stored.
    first_lsn = LSNField(null=True)
    last_lsn = LSNField(null=True)
    #: Next xid at the last look, with its epoch.
    next_xid = models.BigIntegerField(null=True)
    #: Number of the slot's incarnation at the last look; 0: it had none yet.
    incarnation = models.IntegerField(db_default=0, default=0)
    #: SHA-256 of ``facts``.
    digest = models.TextField()
    #: ``{"publications": [{"name", "insert", "update", "delete", "truncate", "via_root",
    #: "all_tables"}], "tables": [{"schema", "table", "oid", "columns": [name] or null for all,
    #: "unpublished_columns": [name], "row_filter": text or null, "operations": "IUDT",
    #: "replica_identity", "primary_key": [name], "root": "schema.table" or null, and what
    #: ``catalog.publication_paths`` tells: "paths", "created", "since_created", "parts"}],
    #: "unpublished": ["schema.table"], "rows": [name]}``.
    facts = models.JSONField()

    objects = SeenOfSlot()

    class Meta:
        indexes = [models.Index(fields=["slot", "-last_seen_at"], name="publication_look_latest")]


class PublicationLapse(Table):
    """A time in which changes of a table may not have been published to a slot.

    A change that was not published has its LSN after the lapse's beginning and before its end.
    """

    class Kind(models.TextChoices):
        #: The table was in none of the slot's publications.
        UNPUBLISHED = "unpublished"
        #: Some operations of it were not published.
        OPERATIONS = "operations"
        #: The row filter had changed afterwards.
        FILTER = "filter"
        #: A partition with rows of its own came or went; with the single operation T, it was
        #: dropped.
        PARTITIONS = "partitions"
        #: The table was published before and afterwards, by a publication that was altered in
        #: between.
        ALTERED = "altered"

    slot = models.ForeignKey("Slot", on_delete=models.CASCADE, related_name="publication_lapses")
    relation_oid = models.BigIntegerField()
    schema = models.TextField()
    table = models.TextField()
    kind = models.TextField(choices=Kind)
    #: Operations that may be missing: some of I, U, D and T.
    operations = models.TextField()
    #: Incarnation number, LSN and time of the last look that found it published; 0, 0/0 and None:
    #: it was never published before.
    from_incarnation = models.IntegerField()
    from_lsn = LSNField()
    from_at = models.DateTimeField(null=True)
    #: Place after which a recorded change of the table was made after the lapse; None: such a
    #: change proves nothing, since others were recorded during the lapse.
    over_incarnation = models.IntegerField(null=True)
    over_lsn = LSNField(null=True)
    #: Place of the first look that found it published again; None: none has yet.
    to_incarnation = models.IntegerField(null=True)
    to_lsn = LSNField(null=True)
    to_at = models.DateTimeField(null=True)

    objects = SeenOfSlot()

    class Meta:
        indexes = [models.Index(fields=["slot", "relation_oid"], name="publication_lapse_of_table")]


class Quarantine(Table):
    """A message that stopped its slot, until somebody decides about it.

    Nothing of it is confirmed, so the source still has it. ``raw`` may contain values that not
    everybody may see.
    """

    class Decision(models.TextChoices):
        """The decision about the message; empty while there is none."""

        NONE = ""
        #: Receive it again: the cause was removed.
        RETRY = "retry"
        #: Leave the whole transaction out of the record, for good.
        SKIP = "skip"

    slot = models.ForeignKey("Slot", on_delete=models.CASCADE, related_name="quarantined")
    incarnation = models.ForeignKey("SlotIncarnation", on_delete=models.CASCADE)
    found_at = models.DateTimeField(default=timezone.now)
    #: Transaction of the message; None for a message outside any transaction.
    xid = models.BigIntegerField(null=True)
    gid = models.TextField(null=True)
    #: Position of its commit or prepare; None for one that is still streaming.
    final_lsn = LSNField(null=True)
    #: Position of the message; None where the stream does not contain it.
    lsn = LSNField(null=True)
    #: ``schema.table``; empty where the message names no table.
    relation = models.TextField(default="")
    #: Tag byte of the message: I, U, D, T, M, R, Y …
    tag = models.TextField(default="")
    #: The message as received, without the XLogData header; cut off at 64 MB.
    raw = models.BinaryField()
    raw_bytes = models.BigIntegerField()
    #: Why it was refused, in plain words, without a value.
    cause = models.TextField()
    remedy = models.TextField()
    decision = models.CharField(max_length=5, choices=Decision, default=Decision.NONE, blank=True)
    decided_by = models.TextField(default="", blank=True)
    decided_at = models.DateTimeField(null=True)
    #: Time at which the decision was carried out.
    settled_at = models.DateTimeField(null=True)

    objects = SeenOfSlot()

    class Meta:
        indexes = [index_where("quarantine_unsettled", "slot", settled_at__isnull=True)]
