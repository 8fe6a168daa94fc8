"""Sources, their slots, incarnations of those, what was published to them, and what stopped one."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from replview.store.fields import LSNField, Table, index_where
from replview.store.models.seen import Seen, SeenOfSlot, SeenSources


class Source(Table):
    """A PostgreSQL cluster and database that replview reads."""

    name = models.CharField(max_length=63, unique=True)
    #: libpq connection string without a password; may be ``service=…`` or ``env:NAME``.
    conninfo = models.TextField()
    #: The password, encrypted with the instance's secret key; empty when the DSN held none.
    sealed_password = models.TextField(default="", blank=True)
    #: Where the password is instead: ``env:NAME`` or ``file:/path``; empty: nowhere else.
    password_ref = models.TextField(default="", blank=True)
    #: When the address or the password was last changed, and by whom; None: as it was added.
    credentials_at = models.DateTimeField(null=True)
    credentials_by = models.TextField(default="", blank=True)
    #: The fleet file that declares it, and sets back what is changed by hand; empty: none does.
    managed_by = models.TextField(default="", db_default="", blank=True)
    #: It goes when the records of its slots are deleted; None: it stays.
    removing_at = models.DateTimeField(null=True)
    #: Made by ``replview watch``: forgotten when the watch ends.
    ephemeral = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)

    #: As last seen; None while never reached.
    server_version = models.IntegerField(null=True)
    system_identifier = models.TextField(null=True)
    timeline = models.IntegerField(null=True)
    encoding = models.TextField(null=True)
    in_recovery = models.BooleanField(null=True)
    max_slot_wal_keep_bytes = models.BigIntegerField(null=True)
    #: idle_replication_slot_timeout; 0: none, None: unknown, or before 18, which has none.
    idle_slot_timeout_seconds = models.IntegerField(null=True)
    #: Whether a standby has its primary keep the rows that its slots need.
    hot_standby_feedback = models.BooleanField(null=True)
    checked_at = models.DateTimeField(null=True)
    #: What is wrong with reaching it: a code of ``receiver.problems``, cause, remedy (often SQL).
    problem_code = models.TextField(default="", blank=True)
    problem_cause = models.TextField(default="", blank=True)
    problem_remedy = models.TextField(default="", blank=True)

    objects = SeenSources()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Slot(Table):
    """A replication slot replview receives: what is wanted, who reads it, how far it is stored."""

    class Desired(models.TextChoices):
        RUNNING = "running"
        STOPPED = "stopped"
        REMOVING = "removing"

    class State(models.TextChoices):
        """What the receiver last said of itself."""

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
        """What comes first where the WAL that the slot retains reaches its budget."""

        #: The source's disk: replview drops its own slot, and the record has a gap.
        DATABASE = "database"
        #: The record: alert, and go on retaining.
        RECORD = "record"

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="slots")
    name = models.CharField(max_length=63)
    #: ``pgoutput``, ``test_decoding`` or ``wal2json``.
    plugin = models.TextField(default="pgoutput")
    interface = models.CharField(max_length=9, choices=Interface, default=Interface.WALSENDER)
    publications = ArrayField(models.TextField(), default=list)
    #: pgoutput's options as given to START_REPLICATION: proto_version, binary, messages,
    #: streaming, two_phase, origin. An absent key: the default for the server's version.
    options = models.JSONField(default=dict, blank=True)
    #: replview created the slot and may drop it.
    owned = models.BooleanField(default=True)
    #: A TEMPORARY slot, gone with its connection (``replview watch``).
    temporary = models.BooleanField(default=False)
    #: Retained WAL it may cost its source; None: from before budgets, or not ours to drop.
    wal_budget_bytes = models.BigIntegerField(null=True)
    protect = models.CharField(max_length=8, choices=Protect, default=Protect.DATABASE)
    #: Write a transactional message to the source so often; None: never.
    heartbeat_seconds = models.IntegerField(null=True)
    #: When the last one was begun, whether it got there or not.
    heartbeat_written_at = models.DateTimeField(null=True)
    #: ``{"schema.table": {"column": "drop" | "mask"}}``, applied before anything is kept.
    column_rules = models.JSONField(default=dict, blank=True)
    #: Keep (marked) the changes of aborted subtransactions and transactions.
    keep_aborted = models.BooleanField(default=False)
    #: Whole days of its record that are older are deleted; None: nothing is, for their age.
    keep_for_days = models.IntegerField(null=True)
    #: What its record may occupy in the store, as estimated; None: whatever it takes.
    keep_at_most_bytes = models.BigIntegerField(null=True)
    created_at = models.DateTimeField(default=timezone.now)

    desired = models.CharField(max_length=12, choices=Desired, default=Desired.RUNNING)
    #: Raised when a receiver takes the slot over; a write with an older one changes nothing.
    epoch = models.BigIntegerField(default=0)
    lease_owner = models.TextField(default="", blank=True)
    #: The receiver's last heartbeat, of which it sends about one a second.
    heartbeat_at = models.DateTimeField(null=True)
    #: What the receiver reported of itself with its last heartbeat: ``batch_changes``,
    #: ``batch_bytes``, ``batch_seconds`` of its last store transaction, ``memory_bytes``.
    receiver_facts = models.JSONField(default=dict, blank=True)

    state = models.CharField(max_length=14, choices=State, default=State.STOPPED)
    state_since = models.DateTimeField(default=timezone.now)
    problem_code = models.TextField(default="", blank=True)
    problem_cause = models.TextField(default="", blank=True)
    problem_remedy = models.TextField(default="", blank=True)
    #: When the receiver tries again after a problem; None: not by itself.
    retry_at = models.DateTimeField(null=True)
    connected_at = models.DateTimeField(null=True)
    #: How many tables its publications held when last looked at; None where not known.
    published_tables = models.IntegerField(null=True)
    #: The last lapse of publication that a look told, in a sentence, and when that was.
    lapse_text = models.TextField(default="", db_default="", blank=True)
    lapse_noted_at = models.DateTimeField(null=True)

    incarnation = models.ForeignKey(
        "SlotIncarnation", null=True, on_delete=models.SET_NULL, related_name="+"
    )
    #: Everything that ends at or before this is in the store: the LSN confirmed to the server.
    checkpoint_lsn = LSNField(null=True)
    #: The server's position as last heard of (keepalive or data).
    server_lsn = LSNField(null=True)
    #: Counters of the current incarnation, moved with the checkpoint.
    transactions_stored = models.BigIntegerField(default=0)
    #: It only rises: with what was rolled back or received anew since.
    changes_stored = models.BigIntegerField(default=0)
    #: Of these, those that savepoints, aborts and ROLLBACK PREPARED took back.
    changes_rolled_back = models.BigIntegerField(default=0, db_default=0)
    #: Of these, those of half received transactions, which the server sent again.
    changes_discarded = models.BigIntegerField(default=0, db_default=0)
    bytes_stored = models.BigIntegerField(default=0)
    #: Raised by others that give out a commit_seq (a baseline): the receiver reads it again.
    outside_writes = models.BigIntegerField(default=0)
    last_commit_time = models.DateTimeField(null=True)
    last_stored_at = models.DateTimeField(null=True)

    objects = Seen()

    class Meta:
        ordering = ["source__name", "name"]
        constraints = [models.UniqueConstraint(fields=["source", "name"], name="slot_by_name")]

    def __str__(self) -> str:
        return f"{self.source.name}/{self.name}"

    @property
    def changes(self) -> int:
        """Stored ones that count."""
        return self.changes_stored - self.changes_rolled_back - self.changes_discarded


class SlotIncarnation(Table):
    """One incarnation of one slot on one cluster: LSNs compare only within it."""

    slot = models.ForeignKey(Slot, on_delete=models.CASCADE, related_name="incarnations")
    #: 1 for the slot's first incarnation.
    number = models.IntegerField()
    system_identifier = models.TextField()
    timeline = models.IntegerField()
    started_lsn = LSNField(null=True)
    started_at = models.DateTimeField(default=timezone.now)
    #: Why it began: ``created``, ``adopted``, ``recreated``, ``re-pointed``, ``temporary``.
    reason = models.TextField()
    #: The last commit_seq given out; assigned without holes under the slot row's lock.
    commit_seq = models.BigIntegerField(default=0)
    #: The last hour that identifiers of its commits tell.
    last_hour = models.IntegerField(db_default=0)
    #: Whether transactions that were not open before their commit tell none before that: they do
    #: where the store's clock is set back.
    hours_in_order = models.BooleanField(db_default=True)

    objects = SeenOfSlot()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["slot", "number"], name="incarnation_by_number")
        ]


class PublicationLook(Table):
    """What a slot's publications published, which the stream does not say, from one look at the
    source's catalog to another; a new row begins when something differs.
    """

    slot = models.ForeignKey("Slot", on_delete=models.CASCADE, related_name="publication_looks")
    #: The first and the last look that found this.
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    #: The end of the source's WAL after the first look and before the last one; None: from before
    #: these were noted.
    first_lsn = LSNField(null=True)
    last_lsn = LSNField(null=True)
    #: The transaction that followed all others at the last look, with its epoch.
    next_xid = models.BigIntegerField(null=True)
    #: The number of the slot's incarnation at the last look; 0: it had none yet.
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
        #: Its row filter was another one afterwards.
        FILTER = "filter"
        #: A partition with rows of its own came or went; of operation T alone: it was dropped.
        PARTITIONS = "partitions"
        #: It was published before and afterwards, by something that was altered in between.
        ALTERED = "altered"

    slot = models.ForeignKey("Slot", on_delete=models.CASCADE, related_name="publication_lapses")
    relation_oid = models.BigIntegerField()
    schema = models.TextField()
    table = models.TextField()
    kind = models.TextField(choices=Kind)
    #: What may be missing: of I, U, D and T.
    operations = models.TextField()
    #: The last look that found it published, by the number of the slot's incarnation, LSN and time;
    #: 0, 0/0 and None: it never was before.
    from_incarnation = models.IntegerField()
    from_lsn = LSNField()
    from_at = models.DateTimeField(null=True)
    #: A change of the table that is recorded beyond this was made after the lapse; None: such a
    #: change tells nothing, since others were recorded during the lapse.
    over_incarnation = models.IntegerField(null=True)
    over_lsn = LSNField(null=True)
    #: The first look that found it published again; None: none has yet.
    to_incarnation = models.IntegerField(null=True)
    to_lsn = LSNField(null=True)
    to_at = models.DateTimeField(null=True)

    objects = SeenOfSlot()

    class Meta:
        indexes = [models.Index(fields=["slot", "relation_oid"], name="publication_lapse_of_table")]


class Quarantine(Table):
    """A message that stopped its slot, until somebody decides: nothing of it is confirmed, the
    source still has it. ``raw`` may hold what must not be shown to everybody.
    """

    class Decision(models.TextChoices):
        """What somebody decided; empty while nobody has."""

        NONE = ""
        #: Receive it once more: the cause was mended.
        RETRY = "retry"
        #: Leave the whole transaction out of the record, for good.
        SKIP = "skip"

    slot = models.ForeignKey("Slot", on_delete=models.CASCADE, related_name="quarantined")
    incarnation = models.ForeignKey("SlotIncarnation", on_delete=models.CASCADE)
    found_at = models.DateTimeField(default=timezone.now)
    #: The transaction it belongs to; None where the message belongs to none.
    xid = models.BigIntegerField(null=True)
    gid = models.TextField(null=True)
    #: Where its commit or prepare is; None for one still streaming.
    final_lsn = LSNField(null=True)
    #: Where the message itself is; None where the stream did not say.
    lsn = LSNField(null=True)
    #: ``schema.table``; empty where the message names none.
    relation = models.TextField(default="")
    #: The message's tag byte: I, U, D, T, M, R, Y …
    tag = models.TextField(default="")
    #: The message as it came, without the CopyData header; cut off at ``RAW_LIMIT_BYTES``.
    raw = models.BinaryField()
    raw_bytes = models.BigIntegerField()
    #: What refused it, in plain words, never a value.
    cause = models.TextField()
    remedy = models.TextField()
    decision = models.CharField(max_length=5, choices=Decision, default=Decision.NONE, blank=True)
    decided_by = models.TextField(default="", blank=True)
    decided_at = models.DateTimeField(null=True)
    #: When the decision had its effect.
    settled_at = models.DateTimeField(null=True)

    #: More of a message than this is not kept.
    RAW_LIMIT_BYTES = 64 * 1024 * 1024

    objects = SeenOfSlot()

    class Meta:
        indexes = [index_where("quarantine_unsettled", "slot", settled_at__isnull=True)]
