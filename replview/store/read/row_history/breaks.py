"""Read breaks: events between two changes of a row that may affect it without naming it.

Breaks are truncations, changes made while the table had no key, transactions that were left out of
the record or deleted with the day they began on, and periods in which the table was not, or not
wholly, published. Baselines are included as well, since their position is between changes.
"""

import datetime as dt
from bisect import bisect_left, insort
from collections.abc import Collection
from dataclasses import dataclass, field

from decoder.scalars import LSN
from replview.store.read.lapses import lapse_text
from replview.store.read.rows import NOT_ABORTED, OPEN_END, RowPosition
from replview.store.read.session import ReadSession

#: The most breaks read of a table; before the oldest of them the table's rows are unknown.
_MOST = 1000

# A table's changes without a key's hash: where rows have keys, only truncations. Other changes of a
# table that never had a key are left out, as its rows cannot be looked up.
_BREAKS = f"""
    SELECT b.* FROM unnest(%(relations)s::bigint[]) AS r (id) CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM relation_version v
                       WHERE v.relation_id = r.id AND v.key_columns <> '[]') AS keyed
    ) k CROSS JOIN LATERAL (
        SELECT CASE WHEN c.op = 'T' THEN 'T' ELSE 'keyless' END, c.relation_id, t.incarnation_id,
               (t.commit_lsn - '0/0')::bigint, (c.lsn - '0/0')::bigint, c.seq, t.id, t.commit_time,
               NULL::timestamptz, ''
        FROM change c JOIN transaction t ON t.id = c.transaction_id
        WHERE c.relation_id = r.id AND c.key_hash IS NULL
          AND (c.op = 'T' OR k.keyed AND c.op <> 'S')
          AND c.lsn >= %(low)s::pg_lsn AND c.lsn <= %(high)s::pg_lsn
          AND (t.state = 'committed' OR t.id = ANY(%(open)s)) AND {NOT_ABORTED}
        ORDER BY c.lsn DESC LIMIT {_MOST}
    ) b
    UNION ALL
    SELECT 'left out', 0, t.incarnation_id, (t.commit_lsn - '0/0')::bigint,
           (t.commit_lsn - '0/0')::bigint, 0, t.id, t.commit_time, NULL, ''
    FROM quarantine q JOIN transaction t ON t.xid = q.xid AND t.incarnation_id = q.incarnation_id
    WHERE q.incarnation_id = ANY(%(incarnations)s) AND q.decision = 'skip' AND t.state = 'skipped'
      AND t.commit_lsn IS NOT NULL
    UNION ALL
    SELECT 'left out', 0, (late->>0)::bigint, ((late->>1)::pg_lsn - '0/0')::bigint,
           ((late->>1)::pg_lsn - '0/0')::bigint, 0, (late->>2)::bigint, (late->>3)::timestamptz,
           NULL, ''
    FROM setting CROSS JOIN LATERAL jsonb_each(setting.value) AS slot
    CROSS JOIN LATERAL jsonb_array_elements(slot.value->'late') AS late
    WHERE setting.name = 'retention.slots' AND (late->>0)::bigint = ANY(%(incarnations)s)
    UNION ALL
    SELECT 'S', 0, b.incarnation_id, (b.lsn - '0/0')::bigint, (b.lsn - '0/0')::bigint, 0,
           b.transaction_id, NULL, NULL, ''
    FROM baseline b
    WHERE b.incarnation_id = ANY(%(incarnations)s) AND b.state = 'done'
      AND b.transaction_id IS NOT NULL
    UNION ALL
    SELECT 'lapse', r.id, i.id,
           CASE WHEN i.number = l.from_incarnation THEN (l.from_lsn - '0/0')::bigint ELSE 0 END,
           CASE WHEN i.number = l.to_incarnation THEN (l.to_lsn - '0/0')::bigint
                ELSE {OPEN_END} END,
           CASE WHEN i.number < l.over_incarnation OR l.over_lsn IS NULL THEN {OPEN_END}
                WHEN i.number = l.over_incarnation THEN (l.over_lsn - '0/0')::bigint ELSE 0 END,
           0, l.from_at, l.to_at, concat(l.kind, ' ', l.operations)
    FROM relation r
    JOIN publication_lapse l ON l.slot_id = r.slot_id AND l.relation_oid = r.oid
    JOIN slot_incarnation i ON i.slot_id = r.slot_id AND i.id = ANY(%(incarnations)s)
     AND i.number >= l.from_incarnation
     AND (l.to_incarnation IS NULL OR i.number <= l.to_incarnation)
    WHERE r.id = ANY(%(relations)s)
"""  # noqa: S608 (nothing but this module's own words)


@dataclass(frozen=True, slots=True)
class TableTruncation:
    """A table was emptied."""

    relation_id: int
    incarnation_id: int
    place: RowPosition
    transaction_id: int
    seq: int
    commit_time: dt.datetime | None


@dataclass(frozen=True, slots=True)
class Lapse:
    """A period in which changes of a table may not have been published, in one incarnation."""

    relation_id: int
    incarnation_id: int
    #: The LSNs between which a missing change may be.
    from_lsn: int
    to_lsn: int
    #: A recorded change beyond this LSN was made after the lapse.
    over_lsn: int
    #: None: from the beginning, or until now.
    from_time: dt.datetime | None
    to_time: dt.datetime | None
    #: A ``PublicationLapse.Kind``.
    kind: str
    #: The operations that may be missing, of I, U, D and T.
    operations: str

    @property
    def text(self) -> str:
        """Return a phrase that completes "the table was"."""
        return lapse_text(self.kind, self.operations, self.from_time, self.to_time)

    def lies_between(self, after: RowPosition, before: RowPosition) -> bool:
        """Return whether some of the lapse is between two places, each of a change or a moment."""
        end = min(self.to_lsn, self.over_lsn) if after[1] == 1 else self.to_lsn
        return self.from_lsn < _lsn(before) and end > _lsn(after)


#: Row exists → the operations that may affect it; None: existence is unknown.
_AFFECTING = {True: frozenset("UDT"), False: frozenset("IU"), None: frozenset("IUDT")}


@dataclass(slots=True)
class Breaks:
    """The breaks of some tables in some incarnations."""

    truncations: list[TableTruncation] = field(default_factory=list)
    #: ``{(table, incarnation): places}`` at which rows may have changed unseen. Table 0 stands for
    #: any table, where a transaction was left out.
    _unseen: dict[tuple[int, int], list[RowPosition]] = field(default_factory=dict)
    #: The same places as ``[(table, incarnation, place, commit time)]``.
    _all_unseen: list[tuple[int, int, RowPosition, dt.datetime | None]] = field(
        default_factory=list
    )
    #: ``{table: place}``: breaks before the place were not read.
    _oldest: dict[int, RowPosition] = field(default_factory=dict)
    #: Baselines, ``{incarnation: [(position, transaction)]}``.
    baselines: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    lapses: list[Lapse] = field(default_factory=list)
    _truncated: dict[tuple[int, int], list[RowPosition]] = field(default_factory=dict)

    def add(self, truncation: TableTruncation) -> None:
        """Add a truncation."""
        self.truncations.append(truncation)
        of = (truncation.relation_id, truncation.incarnation_id)
        insort(self._truncated.setdefault(of, []), truncation.place)

    def add_unseen(
        self,
        relation_id: int,
        incarnation: int,
        place: RowPosition,
        commit_time: dt.datetime | None,
    ) -> None:
        """Add a place at which some row of the table (0: any table) may have changed."""
        self._all_unseen.append((relation_id, incarnation, place, commit_time))
        insort(self._unseen.setdefault((relation_id, incarnation), []), place)

    def forget_beyond(self, most: int) -> None:
        """Note the oldest place of tables with ``most`` breaks, whose older ones were not read."""
        places: dict[int, list[RowPosition]] = {}
        for relation_id, _, place, _ in self._all_unseen:
            places.setdefault(relation_id, []).append(place)
        for each in self.truncations:
            places.setdefault(each.relation_id, []).append(each.place)
        places.pop(0, None)
        self._oldest = {table: min(all_) for table, all_ in places.items() if len(all_) >= most}

    @property
    def keyless(self) -> set[int]:
        """Return the tables with changes that do not name their row."""
        return {each[0] for each in self._all_unseen if each[0]}

    def committed_by(self, until: dt.datetime, *, after: bool = False) -> "Breaks":
        """Return the breaks that had committed by a time, or (``after``) that had not."""
        found = Breaks(baselines=self.baselines, _oldest=self._oldest)
        for lapse in self.lapses:
            begins = lapse.from_time is None or lapse.from_time <= until
            ends = lapse.to_time is not None and lapse.to_time <= until
            if not ends if after else begins:
                found.lapses.append(lapse)
        for each in self.truncations:
            if each.commit_time is not None and (each.commit_time > until) is after:
                found.add(each)
        for relation_id, incarnation, place, commit_time in self._all_unseen:
            if commit_time is not None and (commit_time > until) is after:
                found.add_unseen(relation_id, incarnation, place, commit_time)
        return found

    def truncated(
        self, relation_id: int, incarnation: int, after: RowPosition, before: RowPosition
    ) -> RowPosition | None:
        """Return the first truncation of the table strictly between two places."""
        return _between(self._truncated.get((relation_id, incarnation), []), after, before)

    def unseen_between(
        self,
        relation_id: int,
        incarnation: int,
        after: RowPosition,
        before: RowPosition,
        *,
        exists: bool | None = None,
    ) -> str:
        """Return why a row of the table may have changed unseen between two places.

        The reasons are ``left out``, ``keyless``, ``limited``, ``unpublished``; empty: it has not
        changed. ``exists``: whether the row existed at the first place.
        """
        if after < self._oldest.get(relation_id, after):
            return "limited"
        for table, why in ((0, "left out"), (relation_id, "keyless")):
            if _between(self._unseen.get((table, incarnation), []), after, before):
                return why
        for lapse in self.lapses:
            if (
                (lapse.relation_id, lapse.incarnation_id) == (relation_id, incarnation)
                and lapse.lies_between(after, before)
                and not _AFFECTING[exists].isdisjoint(lapse.operations)
            ):
                return "unpublished"
        return ""


def _lsn(place: RowPosition) -> int:
    """Return the LSN of a change, or of a moment between transactions."""
    return place[2] or place[0]


def read_breaks(
    session: ReadSession,
    relation_ids: Collection[int],
    incarnations: Collection[int],
    low: int,
    high: int,
    open_ids: Collection[int] = (),
) -> Breaks:
    """Read the breaks between two LSNs; ``open_ids``: open transactions that count, too."""
    found = Breaks()
    wanted = {
        "relations": list(relation_ids),
        "incarnations": list(incarnations),
        "low": str(LSN(low)),
        "high": str(LSN(high)),
        "open": list(open_ids),
    }
    for row in session.prepared_rows(_BREAKS, wanted):
        kind, relation_id, incarnation, commit, lsn, seq, transaction_id, at, until, lacking = row
        commit = OPEN_END if commit is None else commit
        if kind == "T":
            place = (commit, 1, lsn, seq)
            found.add(TableTruncation(relation_id, incarnation, place, transaction_id, seq, at))
        elif kind in ("left out", "keyless"):
            found.add_unseen(relation_id, incarnation, (commit, 1, lsn, seq), at)
        elif kind == "S":
            found.baselines.setdefault(incarnation, []).append((commit, transaction_id))
        else:
            why, _, operations = str(lacking).partition(" ")
            found.lapses.append(
                Lapse(relation_id, incarnation, commit, lsn, seq, at, until, why, operations)
            )
    found.forget_beyond(_MOST)
    return found


def _between(
    places: list[RowPosition], after: RowPosition, before: RowPosition
) -> RowPosition | None:
    index = bisect_left(places, (*after[:3], after[3] + 1))
    return places[index] if index < len(places) and places[index] < before else None
