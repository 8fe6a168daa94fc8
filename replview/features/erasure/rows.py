"""Find and erase the changes of rows, under every key and in every version of their table.

Changes that pages hide are found too: those of open and aborted transactions, of aborted
subtransactions, and of baselines that are still being read. All of these hold values.

An erased value becomes ``{"$erased": true, "$on": "2026-11-22"}``; operation, columns that were
sent, place, time and transaction stay. If a part of the key is erased, the change's key hash is
replaced by one that no key leads to, equal for all changes of a key.
"""

import datetime as dt
import hashlib
import hmac
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import orjson
from django.db import connection, transaction
from psycopg import sql

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.store.django_session import rows
from replview.store.read.days import day_of
from replview.store.read.row_history.keys import TableRows
from replview.store.read.row_history.shapes import key_values
from replview.store.read.row_history.trails import (
    Key,
    KeySpan,
    Touch,
    TrailPosition,
    key_of,
    touch_of,
)
from replview.store.read.rows import NOT_ABORTED, OPEN_END
from replview.store.read.seen import withheld_reason
from replview.store.read.visibility import MASKED
from replview.text.parsing import table_word

#: Number of changes read by one statement.
PAGE = 1_000

_OLD, _NEW = sql.Identifier("c", "old"), sql.Identifier("c", "new")
_KEY_OF = sql.SQL(
    "(SELECT jsonb_object_agg(k, {image}->k) FROM unnest(%(names)s::text[]) k WHERE {image} ? k)"
)
_COLUMNS = sql.SQL("""
    c.transaction_id, c.seq, i.number, (c.lsn - '0/0')::bigint,
    coalesce((t.commit_lsn - '0/0')::bigint, {open_end}), c.op::text, c.version_id,
    {key_before}, {key_after}, c.key_hash, c.old_key_hash,
    t.state = 'committed' AND {not_aborted}, c.old_kind IS NOT DISTINCT FROM 'O', t.xid
""").format(
    open_end=OPEN_END,
    key_before=_KEY_OF.format(image=_OLD),
    key_after=_KEY_OF.format(image=_NEW),
    not_aborted=sql.SQL(NOT_ABORTED),
)
_SELECT = sql.SQL("""
    SELECT {columns} FROM change c JOIN transaction t ON t.id = c.transaction_id
    JOIN slot_incarnation i ON i.id = t.incarnation_id
    WHERE {condition}
""")
# Two statements: one with OR would use neither index.
_BY_NEW_KEY = """
    c.relation_id = ANY(%(relations)s) AND c.key_hash = ANY(%(hashes)s)
    AND (c.op IN ('I', 'D') OR c.old_key_hash IS NOT NULL)
"""
_BY_OLD_KEY = "c.relation_id = ANY(%(relations)s) AND c.old_key_hash = ANY(%(hashes)s)"
_TOUCHES = tuple(
    _SELECT.format(columns=_COLUMNS, condition=sql.SQL(condition))
    for condition in (_BY_NEW_KEY, _BY_OLD_KEY)
)
_UNDER_HASH = sql.SQL("""
    c.relation_id = %(relation)s AND {key_hash} = %(hash)s
      AND (c.lsn, c.seq, c.transaction_id) > (%(lsn)s::pg_lsn, %(seq)s, %(id)s)
    ORDER BY c.lsn, c.seq, c.transaction_id LIMIT {limit}
""")
_UNDER = tuple(
    _SELECT.format(
        columns=_COLUMNS,
        condition=_UNDER_HASH.format(key_hash=sql.Identifier("c", key_hash), limit=PAGE),
    )
    for key_hash in ("key_hash", "old_key_hash")
)
# Versions with another key, or without one, are scanned without an index on the key.
_HOLDING_KEY = sql.SQL("""
    c.relation_id = ANY(%(relations)s) AND c.version_id = ANY(%(versions)s)
      AND (c.new @> %(key)s::jsonb OR c.old @> %(key)s::jsonb)
      AND (c.transaction_id, c.seq) > (%(id)s, %(seq)s)
    ORDER BY c.transaction_id, c.seq LIMIT {limit}
""").format(limit=PAGE)
_LIKE = _SELECT.format(columns=_COLUMNS, condition=_HOLDING_KEY)

_IS_MASKED = sql.SQL("""
    EXISTS (SELECT FROM unnest(%(names)s::text[]) k WHERE {mask} IN (c.new->k, c.old->k))
""").format(mask=orjson.dumps(MASKED).decode())
# No hash is kept of a key that was masked before it was stored.
_UNFINDABLE = sql.SQL("""
    SELECT count(*) FROM change c
    WHERE c.relation_id = ANY(%(relations)s) AND c.key_hash IS NULL AND c.op IN ('I', 'U', 'D', 'S')
      AND {is_masked}
""").format(is_masked=_IS_MASKED)
_FINDABLE = sql.SQL("""
    SELECT EXISTS (
        SELECT FROM change c
        WHERE c.relation_id = ANY(%(relations)s) AND c.op IN ('I', 'U', 'D', 'S')
          AND NOT {is_masked})
""").format(is_masked=_IS_MASKED)


@dataclass(frozen=True, slots=True)
class FoundChange:
    """A change of a row, without its values."""

    transaction_id: int
    seq: int
    place: TrailPosition
    op: str
    before: Key | None
    after: Key | None
    key_hash: int | None
    old_key_hash: int | None
    counts: bool
    #: True where the server sent the whole row before the change.
    is_whole: bool
    xid: int | None = None

    @property
    def in_file(self) -> tuple[int, int | None, int | None, int]:
        """Return the place in files: incarnation, commit LSN, xid, seq."""
        commit = self.place.commit_lsn
        return self.place.incarnation, commit if self.counts else None, self.xid, self.seq

    @property
    def touch(self) -> Touch:
        """Return the change as the trail of a row needs it."""
        return touch_of(
            self.place, self.op, self.before, self.after, transaction_id=self.transaction_id,
            counts=self.counts, is_whole=self.is_whole,
        )  # fmt: skip


@dataclass(frozen=True)
class ErasedTable:
    """A table whose rows are erased."""

    table: TableRows

    @property
    def all_names(self) -> list[str]:
        """Return every name that the table had, both plain and as filters spell it."""
        now, shapes = self.table.relation, self.table.shapes.versions.values()
        found = [(now.schema, now.table), *((v.schema, v.table) for v in shapes)]
        return list(dict.fromkeys(n for each in found for n in (".".join(each), table_word(*each))))

    @cached_property
    def names(self) -> list[str]:
        """Return every column that was ever part of the key."""
        versions = self.table.shapes.versions.values()
        return sorted({name for v in versions for name in v.key_columns})

    def withheld(self, columns: Collection[str]) -> bool:
        """Return whether a column is masked, so that results would confirm guesses."""
        return bool(withheld_reason(reading_session(), self.table.relation_ids, columns, ""))

    def unfindable(self, columns: Collection[str]) -> int:
        """Return the number of changes whose key was masked at ingest."""
        wanted = {"relations": list(self.table.relation_ids), "names": list(columns)}
        return int(rows(_UNFINDABLE, wanted)[0][0])

    def has_keys(self, columns: Collection[str]) -> bool:
        """Return whether the record has a change with none of these columns masked at ingest."""
        wanted = {"relations": list(self.table.relation_ids), "names": list(columns)}
        return bool(rows(_FINDABLE, wanted)[0][0])

    def touches(self, key: Key) -> list[Touch]:
        """Return the changes that begin, end or move a row under a key."""
        hashes = [each for each, _ in self.table.hashes(dict(key))]
        found = {
            (each.transaction_id, each.seq): each
            for statement in (_TOUCHES if hashes else ())
            for each in self._read(statement, {**self._asked(), "hashes": hashes})
            if key in (each.before, each.after)
        }
        return [each.touch for each in found.values()]

    def linked(self, key: Key) -> set[Key]:
        """Return keys under which the same row was known in versions with another key."""
        return {
            other
            for page in self.like(key)
            for each in page
            for other in (each.before, each.after)
            if other is not None and other != key
        }

    def like(self, key: Key) -> Iterator[list[FoundChange]]:
        """Yield pages of changes of the row in versions with another key, or without one."""
        versions, names = self.table.shapes.versions.values(), {name for name, _ in key}
        others = [version.id for version in versions if {*version.key_columns} != names]
        text = orjson.dumps(dict(key)).decode()
        wanted = {**self._asked(), "versions": others, "key": text, "id": 0, "seq": 0}
        while others and (page := self._read(_LIKE, wanted)):
            yield page
            wanted |= {"id": page[-1].transaction_id, "seq": page[-1].seq}

    def under(self, spans: Sequence[KeySpan]) -> Iterator[list[FoundChange]]:
        """Yield pages of all changes that belong to one of the spans."""
        by_key: dict[Key, list[KeySpan]] = {}
        for span in spans:
            by_key.setdefault(span.key, []).append(span)
        for key in by_key:
            for key_hash, _ in self.table.hashes(dict(key)):
                for relation in self.table.relation_ids:
                    for statement in _UNDER:
                        yield from self._pages(statement, relation, key_hash, by_key)

    def _pages(
        self,
        statement: sql.Composed,
        relation: int,
        key_hash: int,
        spans: Mapping[Key, Sequence[KeySpan]],
    ) -> Iterator[list[FoundChange]]:
        wanted = {**self._asked(), "relation": relation, "hash": key_hash,
                  "lsn": "0/0", "seq": 0, "id": 0}  # fmt: skip
        while page := self._read(statement, wanted):
            last = page[-1]
            wanted |= {"lsn": str(LSN(last.place.lsn)), "seq": last.seq, "id": last.transaction_id}
            if mine := [each for each in page if belongs(each, spans)]:
                yield mine
            if len(page) < PAGE:
                return

    def _asked(self) -> dict[str, Any]:
        return {"relations": list(self.table.relation_ids), "names": self.names}

    def _read(self, statement: sql.Composed, wanted: Mapping[str, Any]) -> list[FoundChange]:
        return [self._found(row) for row in rows(statement, wanted)]

    def _found(self, row: Sequence[Any]) -> FoundChange:
        identifier, seq, incarnation, lsn, commit, op, version_id = row[:7]
        old, new = (None if image is None else orjson.loads(image) for image in row[7:9])
        version = self.table.shapes.versions.get(version_id)
        names = version.key_columns if version else []
        place = TrailPosition(incarnation, lsn, seq, commit)
        before, after = key_in(names, old, new), key_in(names, new, old)
        hashes = row[9], row[10]
        return FoundChange(
            identifier, seq, place, op, before, after, *hashes, bool(row[11]), row[12], row[13]
        )


def belongs(found: FoundChange, spans: Mapping[Key, Sequence[KeySpan]]) -> bool:
    """Return whether one of the spans contains a change."""
    return any(
        span.holds(found.place, found.op, found.transaction_id)
        for key in (found.before, found.after)
        if key is not None
        for span in spans.get(key, ())
    )


def key_in(names: Iterable[str], *images: Mapping[str, Any] | None) -> Key | None:
    """Return the key's values, each from the first image that has it; None if one is missing."""
    names = list(names)
    values = key_values(names, *images)
    return None if values is None else key_of(dict(zip(names, values, strict=True)))


# An empty image stays empty.
_ERASED = sql.SQL("""
    CASE WHEN {image} IS NOT NULL THEN (
        SELECT coalesce(jsonb_object_agg(e.key, CASE
            WHEN %(all)s OR e.key = ANY(%(columns)s::text[]) THEN %(mark)s::jsonb
            ELSE e.value END), '{{}}')
        FROM jsonb_each({image}) e) END
""")
_UPDATE = sql.SQL("""
    UPDATE change c SET old = {old}, new = {new},
           key_hash = w.key_hash, old_key_hash = w.old_key_hash
    FROM unnest(%(ids)s::bigint[], %(seqs)s::int[], %(hashes)s::bigint[], %(old_hashes)s::bigint[])
         AS w (id, seq, key_hash, old_key_hash)
    WHERE c.transaction_id = w.id AND c.seq = w.seq
      AND c.transaction_id BETWEEN %(low)s AND %(high)s
""").format(old=_ERASED.format(image=_OLD), new=_ERASED.format(image=_NEW))
_LEFT = """
    SELECT count(*) FROM change c
    JOIN unnest(%(ids)s::bigint[], %(seqs)s::int[]) AS w (id, seq)
      ON c.transaction_id = w.id AND c.seq = w.seq
    WHERE EXISTS (
        SELECT FROM (SELECT * FROM jsonb_each(c.old) UNION ALL SELECT * FROM jsonb_each(c.new)) e
        WHERE (%(all)s OR e.key = ANY(%(columns)s::text[]))
          AND NOT (jsonb_typeof(e.value) = 'object' AND e.value ? '$erased'))
"""
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
    """Return the JSON value that replaces erased values."""
    return {"$erased": True, "$on": day.isoformat()}


@dataclass(slots=True)
class ErasedCounts:
    """Counts of erased changes."""

    changes: int = 0
    large_values: int = 0
    transactions: set[int] = field(default_factory=set)
    tables: dict[str, int] = field(default_factory=dict)

    def add(self, table: str, page: Sequence[FoundChange]) -> None:
        """Count a page of changes of a table."""
        self.changes += len(page)
        self.tables[table] = self.tables.get(table, 0) + len(page)
        self.transactions |= {each.transaction_id for each in page}

    def to_json(self) -> dict[str, Any]:
        """Return the counts as they are recorded; ``days`` are the affected partitions."""
        return {
            "changes": self.changes,
            "transactions": len(self.transactions),
            "large_values": self.large_values,
            "days": sorted({day_of(each).isoformat() for each in self.transactions}),
            "tables": dict(sorted(self.tables.items())),
        }


@dataclass(frozen=True, slots=True)
class Eraser:
    """Erase values of changes that were found."""

    day: dt.date
    #: Columns to erase; empty for all.
    columns: tuple[str, ...]
    #: Key of the replacement hashes; it is not stored.
    salt: bytes

    def erase(self, page: Sequence[FoundChange], key_columns: Sequence[str]) -> int:
        """Erase a page in one store transaction; return the number of large values deleted."""
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
            large = self.large_values(page)
            cursor.execute(_LARGE, wanted)
            cursor.execute(_UPDATE, wanted)
        return large

    def large_values(self, page: Sequence[FoundChange]) -> int:
        """Return the number of large values of the changes."""
        return int(rows(_LARGE_COUNT, self._asked(page))[0][0])

    def left(self, page: Sequence[FoundChange]) -> int:
        """Return the number of these changes that still hold a value to erase."""
        return int(rows(_LEFT, self._asked(page))[0][0])

    def _asked(self, page: Sequence[FoundChange]) -> dict[str, Any]:
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
