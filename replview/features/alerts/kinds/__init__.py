"""The kinds of alert rules, one module each.

A kind is a class with its texts, its built-in rules, what it measures now and in the past, its
message and its form fields. Everything else asks the class; a new kind is added to ``KINDS`` below.
"""

from replview.features.alerts.kinds.base import AlertKind, EventKind, MeasuredKind
from replview.features.alerts.kinds.lag import Lag
from replview.features.alerts.kinds.lake_failed import LakeFailed
from replview.features.alerts.kinds.lake_lag import LakeLag
from replview.features.alerts.kinds.long_transaction import LongTransaction
from replview.features.alerts.kinds.poison_change import PoisonChange
from replview.features.alerts.kinds.prepared_age import PreparedAge
from replview.features.alerts.kinds.published_tables import PublishedTables
from replview.features.alerts.kinds.receiver_down import ReceiverDown
from replview.features.alerts.kinds.retained_share import RetainedShare
from replview.features.alerts.kinds.retained_wal import RetainedWal
from replview.features.alerts.kinds.schema_change import SchemaChange
from replview.features.alerts.kinds.slot_inactive import SlotInactive
from replview.features.alerts.kinds.slot_lost import SlotLost
from replview.features.alerts.kinds.source_unreachable import SourceUnreachable
from replview.features.alerts.kinds.store_size import StoreSize
from replview.features.alerts.kinds.time_to_loss import TimeToLoss
from replview.features.alerts.kinds.unsafe_failover import UnsafeFailover
from replview.store.models import AlertRule


class _Unknown(AlertKind):
    """The kind of rules that remain from a newer version after a downgrade."""

    key = ""
    word = "Unknown to this version"
    about = (
        "A newer version of replview made this rule. This version does not know its kind, and does "
        "not evaluate it."
    )
    remedy = "Upgrade replview, or delete the rule. Its alerts stay as they are until then."
    known = False


#: The kinds by their keys, in the order in which pages list them.
KINDS: dict[str, MeasuredKind | EventKind] = {
    kind.key: kind
    for kind in (
        SlotLost(),
        TimeToLoss(),
        RetainedShare(),
        RetainedWal(),
        Lag(),
        ReceiverDown(),
        SlotInactive(),
        PreparedAge(),
        LongTransaction(),
        SourceUnreachable(),
        SchemaChange(),
        PoisonChange(),
        StoreSize(),
        UnsafeFailover(),
        PublishedTables(),
        LakeLag(),
        LakeFailed(),
    )
}
_UNKNOWN = _Unknown()


def kind_of(rule: AlertRule) -> AlertKind:
    """Return the rule's kind, or one for rules whose kind this version does not know."""
    return KINDS.get(rule.kind, _UNKNOWN)
