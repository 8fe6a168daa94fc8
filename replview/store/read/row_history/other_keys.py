"""Find changes that name their rows by other columns than the row's key.

A table's replica identity can be switched from one unique index to another and back, between
transactions or within one. A change that was made meanwhile does not have the row's key of before
and after: it may have changed the row unseen.
"""

import datetime as dt
from collections.abc import Collection
from copy import deepcopy
from dataclasses import dataclass, field

from replview.store.read.row_history.breaks import Breaks
from replview.store.read.row_history.shapes import Shapes
from replview.store.read.rows import OPEN_END, RowPosition
from replview.store.read.session import ReadSession

# The first and the last change of each period in which a version was in force; the last one may be
# in the transaction that brought the next version, or before it. A transaction that was prepared is
# sent at its PREPARE: the version that it brought is in force from there, whatever became of it.
_TIMES = """
    SELECT s.relation_id, s.id, t.incarnation_id, p.*
    FROM (
        SELECT v.id, v.relation_id, each,
               lead(each) OVER (PARTITION BY v.relation_id ORDER BY each->>'at') AS next
        FROM relation_version v CROSS JOIN jsonb_array_elements(v.intervals) AS each
        WHERE v.relation_id = ANY(%(relations)s) AND each->'rolled_back' IS NULL
    ) s
    CROSS JOIN LATERAL (VALUES (1, s.each), (-1, s.next)) AS e (way, told)
    JOIN transaction t ON t.xid = coalesce(e.told->'top', e.told->'xid')::bigint
         AND t.incarnation_id = ANY(%(incarnations)s)
         AND (t.state = 'committed' OR t.prepare_lsn IS NOT NULL OR t.id = ANY(%(open)s))
    LEFT JOIN LATERAL (
        SELECT c.lsn, c.seq FROM change c
        WHERE c.transaction_id = t.id AND c.relation_id = s.relation_id AND c.version_id = s.id
        ORDER BY c.seq * e.way LIMIT 1
    ) c ON true
    CROSS JOIN LATERAL (
        SELECT (t.commit_lsn - '0/0')::bigint, (c.lsn - '0/0')::bigint, c.seq, t.commit_time
        WHERE t.state = 'committed' OR t.id = ANY(%(open)s)
        UNION ALL
        SELECT (t.prepare_lsn - '0/0')::bigint, 0, 0, t.prepared_at WHERE t.prepare_lsn IS NOT NULL
    ) p
    WHERE jsonb_typeof(coalesce(e.told->'top', e.told->'xid')) = 'number'
"""


@dataclass(frozen=True, slots=True)
class _BoundaryChange:
    """The first or last change of a period in which rows were keyed by these columns."""

    relation_id: int
    incarnation_id: int
    place: RowPosition
    commit_time: dt.datetime | None
    key_columns: frozenset[str]


@dataclass(slots=True)
class OtherKeys:
    """The places at which changes of some tables name their rows by one key or another."""

    _changes: list[_BoundaryChange] = field(default_factory=list)
    _with: dict[tuple[int, frozenset[str]], tuple[Breaks, Breaks]] = field(default_factory=dict)

    def added_to(self, breaks: Breaks, key_columns: Collection[str]) -> Breaks:
        """Return the breaks of rows that are sought by these columns."""
        if not self._changes:
            return breaks
        of = id(breaks), frozenset(key_columns)
        if of not in self._with:
            # The cache holds the breaks too, so that no other object gets their id().
            self._with[of] = breaks, self._added(breaks, of[1])
        return self._with[of][1]

    def _added(self, breaks: Breaks, key_columns: frozenset[str]) -> Breaks:
        found = deepcopy(breaks)
        for each in self._changes:
            if each.key_columns != key_columns:
                at = each.relation_id, each.incarnation_id, each.place, each.commit_time
                found.add_unseen(*at)
        return found


def keyed_otherwise(shapes: Shapes, relation_ids: Collection[int]) -> set[int]:
    """Return those of the tables whose rows were known by several keys, one after another."""
    keys: dict[int, set[frozenset[str]]] = {}
    for version in shapes.versions.values():
        if version.relation_id in relation_ids and version.key_columns:
            keys.setdefault(version.relation_id, set()).add(frozenset(version.key_columns))
    return {relation_id for relation_id, each in keys.items() if len(each) > 1}


def read_other_keys(
    session: ReadSession,
    shapes: Shapes,
    relation_ids: Collection[int],
    incarnations: Collection[int],
    open_ids: Collection[int] = (),
) -> OtherKeys:
    """Read where the keys of these tables were switched.

    ``open_ids``: transactions that count although still open.
    """
    wanted = keyed_otherwise(shapes, relation_ids)
    if not wanted:
        return OtherKeys()
    asked = {
        "relations": sorted(wanted),
        "incarnations": list(incarnations),
        "open": list(open_ids),
    }
    changes = []
    for row in session.prepared_rows(_TIMES, asked):
        relation_id, version_id, incarnation, commit, lsn, seq, time = row
        version = shapes.versions.get(version_id)
        if version is not None and version.key_columns:
            place = (OPEN_END if commit is None else commit, 1, lsn or 0, seq or 0)
            key = frozenset(version.key_columns)
            changes.append(_BoundaryChange(relation_id, incarnation, place, time, key))
    return OtherKeys(changes)
