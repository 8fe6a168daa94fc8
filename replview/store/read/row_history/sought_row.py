"""A row as it is asked for: its table in a slot, its keys, and the incarnations to look in."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replview.store.read.row_history.keys import KeyProblem, TableRows
from replview.store.read.row_history.other_keys import keyed_otherwise
from replview.store.read.rows import Slot, Step
from replview.store.read.session import ReadSession

#: A place with the number of its incarnation before it.
At = tuple[int, int, int, int, int]
END: At = (1 << 31, 0, 0, 0, 0)
#: The hashes of a row's keys, and what each stands for.
Keys = Sequence[tuple[int, Mapping[str, str | None]]]

_INCARNATIONS = """
    SELECT i.id, i.number, i.system_identifier, i.timeline, i.reason, i.started_at,
           (i.started_lsn - '0/0')::bigint, gap.message, p.commit_time,
           EXISTS (SELECT FROM slot_event e WHERE e.slot_id = i.slot_id
                   AND e.incarnation_id = i.id AND e.kind = 'failover'
                   AND coalesce((e.detail->>'beyond')::bigint, 1) > 0),
           (SELECT value->i.slot_id::text FROM setting WHERE name = 'retention.slots')
    FROM slot_incarnation i
    LEFT JOIN LATERAL (
        SELECT e.message FROM slot_event e WHERE e.slot_id = i.slot_id
        AND e.incarnation_id = i.id AND e.kind = 'gap' ORDER BY e.id LIMIT 1
    ) gap ON true
    LEFT JOIN slot_incarnation former ON former.slot_id = i.slot_id AND former.number = i.number - 1
    LEFT JOIN LATERAL (
        SELECT t.commit_time FROM transaction t
        WHERE t.incarnation_id = former.id AND t.commit_seq IS NOT NULL
        ORDER BY t.commit_seq DESC LIMIT 1
    ) p ON true
    WHERE i.slot_id = %s ORDER BY i.number DESC
"""


@dataclass(frozen=True, slots=True)
class IncarnationFacts:
    """An incarnation of the slot as a row's history needs it."""

    id: int
    number: int
    system_identifier: str
    timeline: int | None
    reason: str
    started_at: dt.datetime
    started_lsn: int | None
    #: What the log says is missing before it; None: it says nothing.
    gap: str | None
    #: The last commit of the incarnation before it.
    former_commit_time: dt.datetime | None
    #: The former incarnation holds transactions that this one's server never had.
    forked: bool
    #: What is known of the slot's days that were deleted, as JSON (``store.read.days``).
    deleted: str | None = None

    @property
    def seamless(self) -> bool:
        """Whether nothing is missing between the incarnation before it and this one."""
        return self.reason == "failover" and self.gap is None and not self.forked


class SoughtRow:
    """The row that is asked for, and where."""

    def __init__(self, session: ReadSession, slot: Slot, table: TableRows, keys: Keys) -> None:
        """Raises ``KeyProblem`` where whoever asks may not look for rows by these keys."""
        if reason := table.withheld(session):
            raise KeyProblem(reason)
        self.session = session
        self.slot = slot
        self.table = table
        self.keys = keys
        known = {version.relation_id for version in table.shapes.versions.values()}
        self.relation_ids = [each for each in table.relation_ids if each in known]
        found = session.prepared_rows(_INCARNATIONS, [slot.pk])
        #: All of the slot, newest first.
        self.incarnations = [IncarnationFacts(*row) for row in found]
        self.numbers = {each.id: each.number for each in self.incarnations}

    @property
    def is_serial(self) -> bool:
        """Whether one row after another has a key, in the order of LSNs, in all of the record: the
        identity is a unique index that nothing defers, so that a row is changed, or another one
        gets its key, only after whoever changed it before has committed; it was never another one;
        and the LSNs are of one timeline.
        """
        mine = (
            v for v in self.table.shapes.versions.values() if v.relation_id in self.relation_ids
        )
        timelines = {(each.system_identifier, each.timeline) for each in self.incarnations}
        begun = [each.started_lsn or 0 for each in self.incarnations]
        return (
            all(version.replica_identity in ("DEFAULT", "INDEX") for version in mine)
            and not keyed_otherwise(self.table.shapes, self.relation_ids)
            and len(timelines) == 1
            and begun == sorted(begun, reverse=True)
        )

    def at(self, step: Step) -> At:
        """A step's place in the slot's whole history."""
        return (self.numbers.get(step.incarnation_id, 0), *step.place)
