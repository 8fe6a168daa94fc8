"""The coverage of one table: what the slot's publications published, and its last baseline."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import orjson

from decoder.scalars import LSN, lsn_from_text
from replview.store.read.rows import QueriedSlot
from replview.store.read.seen import seen_definition
from replview.store.read.session import ReadSession

#: The operations that publications can publish: insert, update, delete, truncate.
OPERATIONS = "IUDT"
#: Rows of ``publication_look`` that are read at most. A publication that changes more often is
#: rare.
_MOST_LOOKS = 200

# A partitioned table that is published as its leaf partitions has no entry of its own.
_LOOKS = """
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
    """The publication of one table at one look; for a partitioned one, what all partitions have."""

    first_seen_at: dt.datetime
    last_seen_at: dt.datetime
    #: Published operations, letters of ``OPERATIONS``; empty: the table is not published.
    operations: str = ""
    unpublished_columns: tuple[str, ...] = ()
    row_filter: str | None = None
    loose_key: bool = False


@dataclass(frozen=True, slots=True)
class DoneBaseline:
    """A finished baseline of a table."""

    pk: int
    rows: int
    finished_at: dt.datetime | None
    #: The position of the WAL as of which the rows were read.
    lsn: LSN | None


@dataclass(frozen=True, slots=True)
class TableCoverage:
    """The publication of one table, as the looks at the slot's publications found it."""

    schema: str
    table: str
    #: Time of the first look at the publications; None: there was none.
    known_since: dt.datetime | None
    #: True if the last look in the requested time found the table published; None: unknown.
    published: bool | None = None
    #: Letters of the operations that are not published.
    operations_missing: str = ""
    unpublished_columns: tuple[str, ...] = ()
    #: SQL condition of the row filter; only rows that meet it are published.
    row_filter: str | None = None
    #: Time of the first look from which on every look found at least what the last one found.
    published_since: dt.datetime | None = None
    #: The last finished baseline.
    baseline: DoneBaseline | None = None
    #: True if a nondeterministic collation calls different texts of a key's column equal.
    loose_key: bool = False

    @property
    def whole(self) -> bool:
        """Return whether every change of every row is published; columns may be missing."""
        return self.publishes(OPERATIONS)

    def publishes(self, operations: str) -> bool:
        """Return whether all changes of these operations are published, for every row."""
        missing = set(operations) & set(self.operations_missing)
        return bool(self.published) and not missing and self.row_filter is None


def table_coverage(
    session: ReadSession,
    slot: QueriedSlot,
    schema: str,
    table: str,
    until: dt.datetime | None,
    baseline_id: int | None,
) -> TableCoverage:
    """Return the coverage of a table at the end of the requested time."""
    params = {"slot": slot.pk, "schema": schema, "table": table, "name": f"{schema}.{table}"}
    looks = [
        _publishing(first, last, orjson.loads(entries) if isinstance(entries, str) else entries)
        for first, last, entries in session.rows(_LOOKS, {**params, "most": _MOST_LOOKS})
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
        loose_key=now.loose_key,
    )


def _seen_filter(
    session: ReadSession, slot: QueriedSlot, name: tuple[str, str], row_filter: str | None
) -> str | None:
    """Return the row filter, without its text where the reader may not see the values in it."""
    visibility = session.visibility
    if row_filter is None or visibility.open:
        return row_filter
    source_id = session.rows("SELECT source_id FROM slot WHERE id = %s", [slot.pk])[0][0]
    # A column that was masked under a former name of the table stays masked.
    relations = session.rows(_RELATIONS, [slot.pk, *name])
    masked = frozenset[str]().union(
        *(visibility.masked(relation_id) for (relation_id,) in relations)
    )
    return seen_definition(row_filter, visibility, source_id, [name], also=masked)


def _baseline(session: ReadSession, baseline_id: int) -> DoneBaseline | None:
    sql = "SELECT id, rows, finished_at, lsn::text FROM baseline WHERE id = %s"
    baselines = session.rows(sql, [baseline_id])
    if not baselines:
        return None
    pk, rows, finished_at, lsn = baselines[0]
    return DoneBaseline(pk, rows, finished_at, lsn_from_text(lsn))


def _published_since(looks: Sequence[_Publishing]) -> dt.datetime | None:
    """Return the first look since which all found at least what the last did; None: unpublished."""
    now = looks[0]
    if not now.operations:
        return None
    covering = takewhile(
        lambda look: (
            look.row_filter in (None, now.row_filter)
            and set(now.operations) <= set(look.operations)
        ),
        looks,
    )
    return list(covering)[-1].first_seen_at


def _publishing(
    first: dt.datetime, last: dt.datetime, entries: list[dict[str, Any]] | None
) -> _Publishing:
    """Return the publication of a table from its entries: for partitions, what all of them have."""
    if not entries:
        return _Publishing(first, last)
    operations = [o for o in OPERATIONS if all(o in entry["operations"] for entry in entries)]
    columns = {name for entry in entries for name in entry["unpublished_columns"]}
    row_filter = next((entry["row_filter"] for entry in entries if entry["row_filter"]), None)
    loose = any(entry.get("loose_key") for entry in entries)
    return _Publishing(first, last, "".join(operations), tuple(sorted(columns)), row_filter, loose)
