"""The store's tables as Django models.

Two tables are partitioned and written by COPY alone (``change``, ``slot_sample``): Django knows
their columns for reading, the migration holds their SQL.
"""

from replview.store.models.activity import (
    ActivityMark,
    ActorActivity,
    HistoryBlock,
    RelationActivity,
)
from replview.store.models.evidence import Baseline, PublicationLook
from replview.store.models.history import (
    AbortedSubtransaction,
    Change,
    LargeValue,
    Transaction,
    Transition,
)
from replview.store.models.people import ApiToken, SavedFilter
from replview.store.models.quarantine import Quarantine
from replview.store.models.relations import Relation, RelationVersion, TypeName
from replview.store.models.samples import SlotEvent, SlotPeek, SlotSample, SourceLook
from replview.store.models.sources import Slot, SlotIncarnation, Source

__all__ = [
    "AbortedSubtransaction",
    "ActivityMark",
    "ActorActivity",
    "ApiToken",
    "Baseline",
    "Change",
    "HistoryBlock",
    "LargeValue",
    "PublicationLook",
    "Quarantine",
    "Relation",
    "RelationActivity",
    "RelationVersion",
    "SavedFilter",
    "Slot",
    "SlotEvent",
    "SlotIncarnation",
    "SlotPeek",
    "SlotSample",
    "Source",
    "SourceLook",
    "Transaction",
    "Transition",
    "TypeName",
]
