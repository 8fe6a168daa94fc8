"""The store's tables are defined here as Django models.

Two tables are partitioned and written only by COPY (``change``, ``slot_sample``): Django knows
their columns for reading, and a migration has their SQL.
"""

from replview.store.models.access import (
    AccessRecord,
    ApiToken,
    AssignedPassword,
    Grant,
    Identity,
    MaskRule,
    SavedFilter,
    SecondFactor,
    SetupCode,
)
from replview.store.models.alerts import Alert, AlertRule, Delivery, Setting, Webhook
from replview.store.models.drafts import SlotIntention, SourceDraft
from replview.store.models.erasures import Erasure
from replview.store.models.history import (
    AbortedSubtransaction,
    Change,
    LargeValue,
    Relation,
    RelationVersion,
    Transaction,
    Transition,
    TypeName,
)
from replview.store.models.jobs import Baseline, Export, HistoryJob, SlotPeek
from replview.store.models.lakes import Lake, LakeRelation, LakeRun
from replview.store.models.retention import ArchivedRun, ArchiveMark, KeptDay, StoreMoment
from replview.store.models.samples import (
    SampleMark,
    SlotEvent,
    SlotSample,
    SlotSampleHour,
    SlotSampleMinute,
    SourceLook,
    SourceSample,
    WatchedSlot,
    WatchedSubscription,
)
from replview.store.models.sources import (
    PublicationLapse,
    PublicationLook,
    Quarantine,
    Slot,
    SlotIncarnation,
    Source,
)
from replview.store.models.sums import (
    ActivityMark,
    ActorActivity,
    HistoryBlock,
    MinuteMark,
    RelationActivity,
    RelationMinute,
    TransactionSizeMinute,
)

__all__ = [
    "AbortedSubtransaction", "AccessRecord", "ActivityMark", "ActorActivity", "Alert", "AlertRule",
    "ApiToken", "ArchiveMark", "ArchivedRun", "AssignedPassword", "Baseline", "Change", "Delivery",
    "Erasure", "Export", "Grant", "HistoryBlock", "HistoryJob", "Identity", "KeptDay", "Lake",
    "LakeRelation", "LakeRun", "LargeValue", "MaskRule", "MinuteMark", "PublicationLapse",
    "PublicationLook", "Quarantine", "Relation", "RelationActivity", "RelationMinute",
    "RelationVersion", "SampleMark", "SavedFilter", "SecondFactor", "Setting", "SetupCode", "Slot",
    "SlotEvent", "SlotIncarnation", "SlotIntention", "SlotPeek", "SlotSample", "SlotSampleHour",
    "SlotSampleMinute", "Source", "SourceDraft", "SourceLook", "SourceSample", "StoreMoment",
    "Transaction", "TransactionSizeMinute", "Transition", "TypeName", "WatchedSlot",
    "WatchedSubscription", "Webhook",
]  # fmt: skip
