"""What comes between two changes of a row without naming the row: truncations, changes made while
the table had no key, transactions that were left out of the record or deleted with the day they
began on. And baselines, which come between by their position.
"""

import datetime as dt
from bisect import bisect_left, insort
from collections.abc import Collection
from dataclasses import dataclass, field

from decoder.scalars import LSN
from replview.store.read.rows import NOT_ABORTED, OPEN_END, Place
from replview.store.read.session import ReadSession

#: Of a table so many are looked at; beyond the oldest of so many nothing is vouched for.
_MOST = 1000

# A table's changes without a key's hash: where rows have keys, truncations and nothing else. Of one
# that never had a key nobody asks for a row.
_BREAKS = f"""
    SELECT b.* FROM unnest(%(relations)s::bigint[]) AS r (id) CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM relation_version v
                       WHERE v.relation_id = r.id AND v.key_columns <> '[]') AS keyed
    ) k CROSS JOIN LATERAL (
        SELECT CASE WHEN c.op = 'T' THEN 'T' ELSE 'keyless' END, c.relation_id, t.incarnation_id,
               (t.commit_lsn - '0/0')::bigint, (c.lsn - '0/0')::bigint, c.seq, t.id, t.commit_time
        FROM change c JOIN transaction t ON t.id = c.transaction_id
        WHERE c.relation_id = r.id AND c.key_hash IS NULL
          AND (c.op = 'T' OR k.keyed AND c.op <> 'S')
          AND c.lsn >= %(low)s::pg_lsn AND c.lsn <= %(high)s::pg_lsn
          AND (t.state = 'committed' OR t.id = ANY(%(open)s)) AND {NOT_ABORTED}
        ORDER BY c.lsn DESC LIMIT {_MOST}
    ) b
    UNION ALL
    SELECT 'left out', 0, t.incarnation_id, (t.commit_lsn - '0/0')::bigint,
           (t.commit_lsn - '0/0')::bigint, 0, t.id, t.commit_time
    FROM quarantine q JOIN transaction t ON t.xid = q.xid AND t.incarnation_id = q.incarnation_id
    WHERE q.incarnation_id = ANY(%(incarnations)s) AND q.decision = 'skip' AND t.state = 'skipped'
      AND t.commit_lsn IS NOT NULL
    UNION ALL
    SELECT 'left out', 0, (late->>0)::bigint, ((late->>1)::pg_lsn - '0/0')::bigint,
           ((late->>1)::pg_lsn - '0/0')::bigint, 0, (late->>2)::bigint, (late->>3)::timestamptz
    FROM setting CROSS JOIN LATERAL jsonb_each(setting.value) AS slot
    CROSS JOIN LATERAL jsonb_array_elements(slot.value->'late') AS late
    WHERE setting.name = 'retention.slots' AND (late->>0)::bigint = ANY(%(incarnations)s)
    UNION ALL
    SELECT 'S', 0, b.incarnation_id, (b.lsn - '0/0')::bigint, (b.lsn - '0/0')::bigint, 0,
           b.transaction_id, NULL
    FROM baseline b
    WHERE b.incarnation_id = ANY(%(incarnations)s) AND b.state = 'done'
      AND b.transaction_id IS NOT NULL
    UNION ALL
    SELECT 'unpublished', r.id, 0, 0, 0, 0, 0, NULL
    FROM relation r CROSS JOIN LATERAL (
        SELECT look.facts FROM publication_look look WHERE look.slot_id = r.slot_id
        ORDER BY look.last_seen_at DESC LIMIT 1
    ) p CROSS JOIN LATERAL jsonb_array_elements(p.facts->'tables') AS told
    WHERE r.id = ANY(%(relations)s)
      AND p.facts @? '$.publications[*] ? (@.insert==false||@.update==false||@.delete==false)'
      AND told->>'schema' = r.schema AND told->>'table' = r."table"
      AND NOT (told->>'operations' LIKE '%%I%%' AND told->>'operations' LIKE '%%U%%'
               AND told->>'operations' LIKE '%%D%%')
"""  # noqa: S608 (nothing but this module's own words)


@dataclass(frozen=True, slots=True)
class Truncation:
    """A table was emptied."""

    relation_id: int
    incarnation_id: int
    place: Place
    transaction_id: int
    seq: int
    commit_time: dt.datetime | None


@dataclass(slots=True)
class Breaks:
    """Where, in which incarnation, what is known of a table's rows ends."""

    truncations: list[Truncation] = field(default_factory=list)
    #: ``{(table, incarnation): places}`` at which rows may have changed unseen: of table 0, of any,
    #: where a transaction was left out.
    _unseen: dict[tuple[int, int], list[Place]] = field(default_factory=dict)
    #: ``[(table, incarnation, place, commit time)]``: the same.
    _all_unseen: list[tuple[int, int, Place, dt.datetime | None]] = field(default_factory=list)
    #: ``{table: place}``: what came before was not looked at.
    _oldest: dict[int, Place] = field(default_factory=dict)
    #: ``{incarnation: [(position, transaction)]}``.
    baselines: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    #: Tables of which some operation is not published: their rows change unseen.
    unpublished: set[int] = field(default_factory=set)
    _truncated: dict[tuple[int, int], list[Place]] = field(default_factory=dict)

    def add(self, truncation: Truncation) -> None:
        """A table was emptied there."""
        self.truncations.append(truncation)
        of = (truncation.relation_id, truncation.incarnation_id)
        insort(self._truncated.setdefault(of, []), truncation.place)

    def add_unseen(
        self, relation_id: int, incarnation: int, place: Place, commit_time: dt.datetime | None
    ) -> None:
        """Some row of the table (0: of any) may have changed there."""
        self._all_unseen.append((relation_id, incarnation, place, commit_time))
        insort(self._unseen.setdefault((relation_id, incarnation), []), place)

    def forget_beyond(self, most: int) -> None:
        """Of a table of which so many are known, older ones were not read."""
        places: dict[int, list[Place]] = {}
        for relation_id, _, place, _ in self._all_unseen:
            places.setdefault(relation_id, []).append(place)
        for each in self.truncations:
            places.setdefault(each.relation_id, []).append(each.place)
        places.pop(0, None)
        self._oldest = {table: min(all_) for table, all_ in places.items() if len(all_) >= most}

    @property
    def keyless(self) -> set[int]:
        """The tables with changes that do not tell of which row they are."""
        return {each[0] for each in self._all_unseen if each[0]}

    def committed_by(self, until: dt.datetime, *, after: bool = False) -> "Breaks":
        """Only of what had committed by then, or of what had not."""
        found = Breaks(baselines=self.baselines, unpublished=self.unpublished, _oldest=self._oldest)
        for each in self.truncations:
            if each.commit_time is not None and (each.commit_time > until) is after:
                found.add(each)
        for relation_id, incarnation, place, commit_time in self._all_unseen:
            if commit_time is not None and (commit_time > until) is after:
                found.add_unseen(relation_id, incarnation, place, commit_time)
        return found

    def truncated(
        self, relation_id: int, incarnation: int, after: Place, before: Place
    ) -> Place | None:
        """The first truncation of the table strictly between two places."""
        return _between(self._truncated.get((relation_id, incarnation), []), after, before)

    def unseen_between(
        self, relation_id: int, incarnation: int, after: Place, before: Place
    ) -> str:
        """Why a row of the table may have changed between two places without a word of it: ``left
        out``, ``keyless``, ``limited``; empty: it has not.
        """
        if after < self._oldest.get(relation_id, after):
            return "limited"
        for table, why in ((0, "left out"), (relation_id, "keyless")):
            if _between(self._unseen.get((table, incarnation), []), after, before):
                return why
        return ""


def read_breaks(
    session: ReadSession,
    relation_ids: Collection[int],
    incarnations: Collection[int],
    low: int,
    high: int,
    open_ids: Collection[int] = (),
) -> Breaks:
    """The breaks between two LSNs; ``open_ids``: transactions that count although still open."""
    found = Breaks()
    wanted = {
        "relations": list(relation_ids),
        "incarnations": list(incarnations),
        "low": str(LSN(low)),
        "high": str(LSN(high)),
        "open": list(open_ids),
    }
    for row in session.prepared_rows(_BREAKS, wanted):
        kind, relation_id, incarnation, commit, lsn, seq, transaction_id, at = row
        commit = OPEN_END if commit is None else commit
        if kind == "T":
            place = (commit, 1, lsn, seq)
            found.add(Truncation(relation_id, incarnation, place, transaction_id, seq, at))
        elif kind in ("left out", "keyless"):
            found.add_unseen(relation_id, incarnation, (commit, 1, lsn, seq), at)
        elif kind == "S":
            found.baselines.setdefault(incarnation, []).append((commit, transaction_id))
        else:
            found.unpublished.add(relation_id)
    found.forget_beyond(_MOST)
    return found


def _between(places: list[Place], after: Place, before: Place) -> Place | None:
    index = bisect_left(places, (*after[:3], after[3] + 1))
    return places[index] if index < len(places) and places[index] < before else None
