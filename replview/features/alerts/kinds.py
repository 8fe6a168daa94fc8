"""The kinds of alert rules: what each measures, its unit, and what to do when it fires."""

from dataclasses import dataclass
from enum import StrEnum

from replview.features.alerts.amounts import Unit
from replview.store.models import AlertRule
from replview.store.receiver_workers import SLOTS_PER_WORKER

_K = AlertRule.Kind


class Subject(StrEnum):
    """The kind of thing that a rule measures."""

    SLOT = "slot"
    #: A slot that replview receives.
    OUR_SLOT = "our slot"
    SOURCE = "source"
    STORE = "store"
    TABLE = "table"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class AlertKind:
    """A kind of alert rule."""

    #: The kind's name on pages.
    word: str
    unit: Unit
    of: Subject
    #: A sentence that says what is measured.
    about: str
    #: A sentence that says what to do when the rule fires.
    remedy: str
    #: True when the rule fires below its threshold instead of at or above it.
    below: bool = False
    #: True for an event: it fires at once, and ends when a user marks it as seen or after a while.
    event: bool = False
    #: False when a newer version made the rule, so that this version cannot evaluate it.
    known: bool = True

    @property
    def per_slot(self) -> bool:
        """Return whether a rule of this kind measures slots."""
        return self.of in (Subject.SLOT, Subject.OUR_SLOT)


KINDS: dict[str, AlertKind] = {
    _K.SLOT_LOST: AlertKind(
        "Slot lost", Unit.YES_NO, Subject.SLOT,
        "The source removed WAL that the slot still needed, or invalidated the slot, or a "
        "slot that replview receives is no longer there.",
        "Drop the slot and create it again. What was committed in between is not in its "
        "stream: take a baseline, or initialise the subscriber again.",
    ),
    _K.TIME_TO_LOSS: AlertKind(
        "Time to loss", Unit.SECONDS, Subject.SLOT,
        "How long until the slot is lost, by the limit that is reached first: the source removes "
        "WAL that it needs, or replview drops it at its budget, at the median pace of the last "
        "one, five and ten minutes; or the source invalidates it because nobody reads it "
        "(idle_replication_slot_timeout). Foretold once a tenth of a size is used, or half of the "
        "timeout.",
        "Let its consumer continue, raise the limit that is named, or drop the slot.", below=True,
    ),
    _K.RETAINED_SHARE: AlertKind(
        "Retained WAL, of its limit", Unit.SHARE, Subject.SLOT,
        "WAL that the source keeps for the slot, as a share of max_slot_wal_keep_size or of "
        "the slot's budget, whichever is smaller.",
        "Let its consumer continue, raise the limit, or drop the slot.",
    ),
    _K.RETAINED_WAL: AlertKind(
        "Retained WAL, without a limit", Unit.BYTES, Subject.SLOT,
        "WAL that the source keeps for a slot that neither max_slot_wal_keep_size nor a "
        "budget limits; of a single slot's own rule, in any case.",
        "Let its consumer continue or drop the slot; set max_slot_wal_keep_size, so that it "
        "cannot fill the disk.",
    ),
    _K.LAG: AlertKind(
        "Lag", Unit.SECONDS, Subject.SLOT,
        "How long ago the newest WAL that the slot's consumer confirmed was written on the "
        "source (replay_lag of pg_stat_replication). Unknown while nobody reads the slot.",
        "Check whether the consumer is slow, or a large transaction is being sent.",
    ),
    _K.RECEIVER_DOWN: AlertKind(
        "Receiver down", Unit.SECONDS, Subject.OUR_SLOT,
        "A started slot has had no receiver, or no heartbeat from it, for this long. Known after "
        "ten seconds.",
        "The slot's page says why. A worker must run and have room: replview up --receivers N "
        f"starts N of them, and each takes {SLOTS_PER_WORKER} slots at most.",
    ),
    _K.SLOT_INACTIVE: AlertKind(
        "Slot inactive", Unit.SECONDS, Subject.SLOT,
        "The slot has had no consumer for this long; the source keeps WAL for it.",
        "Start its consumer, or drop the slot.",
    ),
    _K.PREPARED_AGE: AlertKind(
        "Prepared transaction", Unit.SECONDS, Subject.SOURCE,
        "Age of the oldest transaction that waits for COMMIT PREPARED or ROLLBACK PREPARED, "
        "of all databases of the server.",
        "Commit it or roll it back: it holds WAL, locks and vacuum. In flight has the SQL.",
    ),
    _K.LONG_TRANSACTION: AlertKind(
        "Long transaction", Unit.SECONDS, Subject.SOURCE,
        "Age of the oldest transaction that has an xid or a snapshot.",
        "End it, or wait: every slot must keep WAL from its beginning on, and vacuum waits.",
    ),
    _K.SOURCE_UNREACHABLE: AlertKind(
        "Source unreachable", Unit.SECONDS, Subject.SOURCE,
        "How long ago the source last told its state; all that is known of it is that old.",
        "See whether the server runs and lets replview in; Sources says what it answered.",
    ),
    _K.SCHEMA_CHANGE: AlertKind(
        "Schema change", Unit.YES_NO, Subject.TABLE,
        "A published table came with another shape. Cleared once seen, or ten minutes after "
        "the last.",
        "Compare the two versions, then mark it as seen.", event=True,
    ),
    _K.POISON_CHANGE: AlertKind(
        "Poison change", Unit.YES_NO, Subject.OUR_SLOT,
        "A change could not be stored; its slot waits for a decision.",
        "On the slot's page: try again once the cause is fixed, or skip the transaction.",
    ),
    _K.STORE_SIZE: AlertKind(
        "Store size", Unit.SHARE, Subject.STORE,
        "What replview's store occupies, as a share of its budget, where one is set.",
        "Keep less (retention), raise the budget, or give the store more room.",
    ),
    _K.UNSAFE_FAILOVER: AlertKind(
        "Unsafe failover", Unit.YES_NO, Subject.SLOT,
        "A slot is to survive a failover, and synchronized_standby_slots is empty: the "
        "record can then hold transactions that the promoted server never had.",
        "Name the standbys' physical slots in synchronized_standby_slots.",
    ),
    _K.PUBLISHED_TABLES: AlertKind(
        "Published tables", Unit.YES_NO, Subject.OUR_SLOT,
        "A table was taken out of the slot's publications, or published otherwise than before: "
        "changes of it may be missing. Over ten minutes after the last such change.",
        "If it was not meant, publish the table again; take a baseline of it, so that its rows "
        "are known again.",
    ),
}  # fmt: skip


#: The kind of rules that remain from a newer version after a downgrade.
UNKNOWN = AlertKind(
    "Unknown to this version", Unit.YES_NO, Subject.UNKNOWN,
    "A newer version of replview made this rule. This version does not know its kind, and does "
    "not evaluate it.",
    "Upgrade replview, or delete the rule. Its alerts stay as they are until then.", known=False,
)  # fmt: skip


def kind_of(rule: AlertRule) -> AlertKind:
    """Return the rule's kind, or ``UNKNOWN`` for a kind that this version does not know."""
    return KINDS.get(rule.kind, UNKNOWN)
