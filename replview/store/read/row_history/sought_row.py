"""A row to look up: its table in a slot, its keys, and the incarnations to search."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replview.store.read.row_history.keys import KeyProblem, TableRows
from replview.store.read.row_history.other_keys import keyed_otherwise
from replview.store.read.rows import QueriedSlot, RowStep
from replview.store.read.session import ReadSession

#: The incarnation's number, followed by a place in the incarnation.
At = tuple[int, int, int, int, int]
END: At = (1 << 31, 0, 0, 0, 0)
#: The hashes of a row's keys, each with its key.
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
    """The facts about an incarnation that a row's history needs."""

    id: int
    number: int
    system_identifier: str
    timeline: int | None
    reason: str
    started_at: dt.datetime
    started_lsn: int | None
    #: The message of the logged gap before it; None: no gap is logged.
    gap: str | None
    #: The last commit of the incarnation before it.
    former_commit_time: dt.datetime | None
    #: True when the former incarnation has transactions that this one's server never had.
    forked: bool
    #: The slot's deleted days, as JSON (``store.read.days``).
    deleted: str | None = None

    @property
    def seamless(self) -> bool:
        """Return whether no change is missing between the incarnation before it and this one."""
        return self.reason == "failover" and self.gap is None and not self.forked


class SoughtRow:
    """A row to look up, and the incarnations to search."""

    def __init__(
        self, session: ReadSession, slot: QueriedSlot, table: TableRows, keys: Keys
    ) -> None:
        """Look up the table's relations; raise ``KeyProblem`` if the user may not use the keys."""
        if reason := table.withheld(session):
            raise KeyProblem(reason)
        self.session = session
        self.slot = slot
        self.table = table
        self.keys = keys
        known = {version.relation_id for version in table.shapes.versions.values()}
        self.relation_ids = [each for each in table.relation_ids if each in known]
        found = session.prepared_rows(_INCARNATIONS, [slot.pk])
        #: All incarnations of the slot, newest first.
        self.incarnations = [IncarnationFacts(*row) for row in found]
        self.numbers = {each.id: each.number for each in self.incarnations}

    @property
    def is_serial(self) -> bool:
        """Return whether one row at a time has a key, in the order of LSNs, in all of the record.

        This holds where the identity is a unique, not deferrable index, and was never another one:
        a row is changed, or another row gets its key, only after the transaction that changed it
        before has committed. The LSNs must be of one timeline.
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

    def at(self, step: RowStep) -> At:
        """Return a step's place in the slot's whole history."""
        return (self.numbers.get(step.incarnation_id, 0), *step.place)
