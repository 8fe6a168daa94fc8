"""What the record can vouch for of one table: what the slot's publications published of it, look by
look, and the baseline that was read.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import orjson

from decoder.scalars import LSN
from replview.store.read.rows import Slot
from replview.store.read.seen import seen_definition
from replview.store.read.session import ReadSession

#: Inserts, updates, deletes, truncates.
OPERATIONS = "IUDT"
#: More looks at one table's publishing are not told: publications that change daily are rare.
_MOST_LOOKS = 200

# A partitioned table that is published through its leaves has no entry of its own.
_OF_TABLE = """
    SELECT p.first_seen_at, p.last_seen_at,
           (SELECT jsonb_agg(t) FROM jsonb_array_elements(p.facts->'tables') AS t
             WHERE (t->>'schema' = %(schema)s AND t->>'table' = %(table)s)
                OR t->>'root' = %(name)s)
    FROM publication_look p WHERE p.slot_id = %(slot)s
    ORDER BY p.last_seen_at DESC LIMIT %(most)s
"""

_RELATIONS = 'SELECT id FROM relation WHERE slot_id = %s AND schema = %s AND "table" = %s'


@dataclass(frozen=True, slots=True)
class _Publishing:
    """What one look found of one table; of a partitioned one, what all its partitions have."""

    first_seen_at: dt.datetime
    last_seen_at: dt.datetime
    #: Of I, U, D, T; empty: the table is not published.
    operations: str = ""
    unpublished_columns: tuple[str, ...] = ()
    row_filter: str | None = None


@dataclass(frozen=True, slots=True)
class DoneBaseline:
    pk: int
    rows: int
    finished_at: dt.datetime | None
    #: As of where.
    lsn: LSN | None


@dataclass(frozen=True, slots=True)
class TableCoverage:
    """What the slot's publications published of one table, as far as looked at."""

    schema: str
    table: str
    #: The first look at the publications; None: nobody has looked.
    known_since: dt.datetime | None
    #: As the last look (of the time asked for) told; None: unknown.
    published: bool | None = None
    #: Of I, U, D, T: what is not published now.
    operations_missing: str = ""
    unpublished_columns: tuple[str, ...] = ()
    #: Only rows for which this holds are published.
    row_filter: str | None = None
    #: Since when it has been published as it is now, without a look that told otherwise.
    published_since: dt.datetime | None = None
    #: The last one that was done.
    baseline: DoneBaseline | None = None

    @property
    def whole(self) -> bool:
        """Every change of every row is published; columns may be missing."""
        return self.publishes(OPERATIONS)

    def publishes(self, operations: str) -> bool:
        """Whether all changes of these operations are published, of every row."""
        missing = set(operations) & set(self.operations_missing)
        return bool(self.published) and not missing and self.row_filter is None


def table_coverage(
    session: ReadSession,
    slot: Slot,
    schema: str,
    table: str,
    until: dt.datetime | None,
    baseline_id: int | None,
) -> TableCoverage:
    """The table in the looks at the publications, as they were at the end of the time."""
    wanted = {"slot": slot.pk, "schema": schema, "table": table, "name": f"{schema}.{table}"}
    looks = [
        _publishing(first, last, orjson.loads(entries) if isinstance(entries, str) else entries)
        for first, last, entries in session.rows(_OF_TABLE, {**wanted, "most": _MOST_LOOKS})
        if until is None or first <= until
    ]
    baseline = None if baseline_id is None else _baseline(session, baseline_id)
    if not looks:
        return TableCoverage(schema, table, known_since=None, baseline=baseline)
    now = looks[0]
    return TableCoverage(
        schema,
        table,
        known_since=looks[-1].first_seen_at,
        published=bool(now.operations),
        operations_missing="".join(op for op in OPERATIONS if op not in now.operations),
        unpublished_columns=now.unpublished_columns,
        row_filter=_seen_filter(session, slot, (schema, table), now.row_filter),
        published_since=_published_since(looks),
        baseline=baseline,
    )


def _seen_filter(
    session: ReadSession, slot: Slot, name: tuple[str, str], row_filter: str | None
) -> str | None:
    """The filter; without its text where that may hold what nobody is to see, or whoever asks."""
    visibility = session.visibility
    if row_filter is None or visibility.open:
        return row_filter
    source_id = session.rows("SELECT source_id FROM slot WHERE id = %s", [slot.pk])[0][0]
    # What is masked under a former name is masked still.
    mine = session.rows(_RELATIONS, [slot.pk, *name])
    masked = frozenset[str]().union(*(visibility.masked(relation_id) for (relation_id,) in mine))
    return seen_definition(row_filter, visibility, source_id, [name], also=masked)


def _baseline(session: ReadSession, baseline_id: int) -> DoneBaseline | None:
    sql = "SELECT id, rows, finished_at, lsn::text FROM baseline WHERE id = %s"
    found = session.rows(sql, [baseline_id])
    if not found:
        return None
    pk, rows, finished_at, lsn = found[0]
    return DoneBaseline(pk, rows, finished_at, LSN.parse(lsn) if lsn else None)


def _published_since(looks: Sequence[_Publishing]) -> dt.datetime | None:
    """How far back the looks tell at least what the last one does; None: it tells nothing."""
    now = looks[0]
    if not now.operations:
        return None
    same = takewhile(
        lambda look: (
            look.row_filter in (None, now.row_filter)
            and set(now.operations) <= set(look.operations)
        ),
        looks,
    )
    return list(same)[-1].first_seen_at


def _publishing(
    first: dt.datetime, last: dt.datetime, entries: list[dict[str, Any]] | None
) -> _Publishing:
    """One table's entry; of several partitions, what holds for all of them."""
    if not entries:
        return _Publishing(first, last)
    operations = [o for o in OPERATIONS if all(o in entry["operations"] for entry in entries)]
    columns = {name for entry in entries for name in entry["unpublished_columns"]}
    row_filter = next((entry["row_filter"] for entry in entries if entry["row_filter"]), None)
    return _Publishing(first, last, "".join(operations), tuple(sorted(columns)), row_filter)
