"""What a slot's publications published of one table, look by look."""

import datetime as dt
from dataclasses import dataclass
from typing import Any

import orjson

from replview.store.read.rows import Slot
from replview.store.read.session import ReadSession

#: More looks at one table's publishing are not told: publications that change daily are rare.
MOST_LOOKS = 200

# A partitioned table that is published through its leaves has no entry of its own.
_OF_TABLE = """
    SELECT p.first_seen_at, p.last_seen_at,
           (SELECT jsonb_agg(t) FROM jsonb_array_elements(p.facts->'tables') AS t
             WHERE (t->>'schema' = %(schema)s AND t->>'table' = %(table)s)
                OR t->>'root' = %(name)s)
    FROM publication_look p WHERE p.slot_id = %(slot)s
    ORDER BY p.last_seen_at DESC LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class Publishing:
    """What one look found of one table; of a partitioned one, what all its partitions have."""

    first_seen_at: dt.datetime
    last_seen_at: dt.datetime
    #: Of I, U, D, T; empty: the table is not published.
    operations: str = ""
    unpublished_columns: tuple[str, ...] = ()
    row_filter: str | None = None


def publishing_of(session: ReadSession, slot: Slot, schema: str, table: str) -> list[Publishing]:
    """The looks at one table's publishing, the newest first."""
    wanted: dict[str, str | int] = {
        "slot": slot.pk,
        "schema": schema,
        "table": table,
        "name": f"{schema}.{table}",
        "most": MOST_LOOKS,
    }
    rows = session.rows(_OF_TABLE, wanted)
    return [_publishing(first, last, _entries(told)) for first, last, told in rows]


def _entries(told: Any) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = orjson.loads(told) if isinstance(told, str) else told or []
    return entries


def _publishing(first: dt.datetime, last: dt.datetime, entries: list[dict[str, Any]]) -> Publishing:
    """One table's entry; of several partitions, what holds for all of them."""
    if not entries:
        return Publishing(first, last)
    operations = set.intersection(*(set(entry["operations"]) for entry in entries))
    columns = {name for entry in entries for name in entry["unpublished_columns"]}
    filters = [entry["row_filter"] for entry in entries if entry["row_filter"]]
    return Publishing(
        first,
        last,
        "".join(op for op in "IUDT" if op in operations),
        tuple(sorted(columns)),
        filters[0] if filters else None,
    )
