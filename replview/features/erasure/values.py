"""Erasing values in the store: a batch of changes a transaction, their structure left as it is.

A value becomes ``{"$erased": true, "$on": "2026-11-22"}``; operation, columns that were sent,
place, time and transaction stay. Where a part of the key is erased, the hash that the change was
found under is replaced by one that nothing leads to, the same for all changes of that key.
"""

import datetime as dt
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from django.db import connection, transaction

from replview.features.erasure.rows import Found
from replview.store.read.days import day_of

# (An image without columns stays one.)
_ERASED = """
    CASE WHEN {image} IS NOT NULL THEN (
        SELECT coalesce(jsonb_object_agg(e.key, CASE
            WHEN %(all)s OR e.key = ANY(%(columns)s::text[]) THEN %(mark)s::jsonb
            ELSE e.value END), '{{}}')
        FROM jsonb_each({image}) e) END
"""
_UPDATE = f"""
    UPDATE change c SET old = {_ERASED.format(image="c.old")},
           new = {_ERASED.format(image="c.new")},
           key_hash = w.key_hash, old_key_hash = w.old_key_hash
    FROM unnest(%(ids)s::bigint[], %(seqs)s::int[], %(hashes)s::bigint[], %(old_hashes)s::bigint[])
         AS w (id, seq, key_hash, old_key_hash)
    WHERE c.transaction_id = w.id AND c.seq = w.seq
      AND c.transaction_id BETWEEN %(low)s AND %(high)s
"""  # noqa: S608 (of constants)
_LARGE = """
    DELETE FROM large_value v USING unnest(%(ids)s::bigint[], %(seqs)s::int[]) AS w (id, seq)
    WHERE v.transaction_id = w.id AND v.seq = w.seq
      AND (%(all)s OR v."column" = ANY(%(columns)s::text[]))
"""
_LARGE_COUNT = """
    SELECT count(DISTINCT (v.transaction_id, v.seq, v.side, v."column"))
    FROM large_value v JOIN unnest(%(ids)s::bigint[], %(seqs)s::int[]) AS w (id, seq)
      ON v.transaction_id = w.id AND v.seq = w.seq
    WHERE %(all)s OR v."column" = ANY(%(columns)s::text[])
"""


def erased_mark(day: dt.date) -> dict[str, Any]:
    """What stands in an erased value's place."""
    return {"$erased": True, "$on": day.isoformat()}


@dataclass(slots=True)
class Tally:
    """What was found, or erased, so far."""

    changes: int = 0
    large_values: int = 0
    transactions: set[int] = field(default_factory=set)
    tables: dict[str, int] = field(default_factory=dict)

    @property
    def days(self) -> list[dt.date]:
        """Whose partitions hold them."""
        return sorted({day_of(identifier) for identifier in self.transactions})

    def add(self, table: str, page: Sequence[Found]) -> None:
        """Some changes more."""
        self.changes += len(page)
        self.tables[table] = self.tables.get(table, 0) + len(page)
        self.transactions |= {each.transaction_id for each in page}

    def to_json(self) -> dict[str, Any]:
        """As it is recorded."""
        return {
            "changes": self.changes,
            "transactions": len(self.transactions),
            "large_values": self.large_values,
            "days": [day.isoformat() for day in self.days],
            "tables": dict(sorted(self.tables.items())),
        }


@dataclass(frozen=True, slots=True)
class Eraser:
    """Erases values of changes that were found."""

    day: dt.date
    #: Only these; empty: all.
    columns: tuple[str, ...]
    #: Makes the hashes that take the place of others; nobody keeps it.
    salt: bytes

    def erase(self, page: Sequence[Found], key_columns: Sequence[str]) -> int:
        """One transaction of the store; gives how many large values went along."""
        keyed = not self.columns or bool({*self.columns} & {*key_columns})
        wanted = {
            **self._asked(page),
            "mark": orjson.dumps(erased_mark(self.day)).decode(),
            "hashes": [self._hash(each.key_hash, keyed) for each in page],
            "old_hashes": [self._hash(each.old_key_hash, keyed) for each in page],
            "low": min(each.transaction_id for each in page),
            "high": max(each.transaction_id for each in page),
        }
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_LARGE_COUNT, wanted)
            large = int(cursor.fetchone()[0])
            cursor.execute(_LARGE, wanted)
            cursor.execute(_UPDATE, wanted)
        return large

    def large_values(self, page: Sequence[Found]) -> int:
        """How many would go along."""
        with connection.cursor() as cursor:
            cursor.execute(_LARGE_COUNT, self._asked(page))
            return int(cursor.fetchone()[0])

    def _asked(self, page: Sequence[Found]) -> dict[str, Any]:
        return {
            "ids": [each.transaction_id for each in page],
            "seqs": [each.seq for each in page],
            "all": not self.columns,
            "columns": list(self.columns),
        }

    def _hash(self, found: int | None, keyed: bool) -> int | None:
        if found is None or not keyed:
            return found
        digest = hmac.digest(self.salt, str(found).encode(), hashlib.sha256)
        return int.from_bytes(digest[:8], "big", signed=True)
