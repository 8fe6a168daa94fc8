"""The changes of rows that are to be erased: found under every key the rows had, in every shape of
their table, whether they count or not.

What the pages hide is found as well: open and aborted transactions, subtransactions that aborted,
baselines that are still being read. All of these hold values.

A value that is erased becomes ``{"$erased": true, "$on": "2026-11-22"}``; operation, columns that
were sent, place, time and transaction stay. Where a part of the key is erased, the hash that the
change was found under is replaced by one that nothing leads to, the same for all changes of a key.
"""

import datetime as dt
import hashlib
import hmac
from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import orjson
from django.db import connection, transaction

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.features.erasure.trails import Key, Place, Span, Touch, key_of, touch_of
from replview.store.django_session import rows
from replview.store.read.days import day_of
from replview.store.read.row_history.keys import TableRows
from replview.store.read.rows import NOT_ABORTED, OPEN_END
from replview.store.read.seen import withheld_reason
from replview.store.read.visibility import MASKED
from replview.text.parsing import table_word

#: Changes looked at in one statement.
PAGE = 1_000

_KEY_OF = (
    "(SELECT jsonb_object_agg(k, {image}->k) FROM unnest(%(names)s::text[]) k WHERE {image} ? k)"
)
_COLUMNS = f"""
    c.transaction_id, c.seq, i.number, (c.lsn - '0/0')::bigint,
    coalesce((t.commit_lsn - '0/0')::bigint, {OPEN_END}), c.op::text, c.version_id,
    {_KEY_OF.format(image="c.old")}, {_KEY_OF.format(image="c.new")},
    c.key_hash, c.old_key_hash, t.state = 'committed' AND {NOT_ABORTED}, t.xid
"""
_FROM = """
    FROM change c JOIN transaction t ON t.id = c.transaction_id
    JOIN slot_incarnation i ON i.id = t.incarnation_id
"""
# Two statements: one with OR would use neither index.
_TOUCHES = (
    f"""SELECT {_COLUMNS} {_FROM}
    WHERE c.relation_id = ANY(%(relations)s) AND c.key_hash = ANY(%(hashes)s)
      AND (c.op IN ('I', 'D') OR c.old_key_hash IS NOT NULL)""",
    f"""SELECT {_COLUMNS} {_FROM}
    WHERE c.relation_id = ANY(%(relations)s) AND c.old_key_hash = ANY(%(hashes)s)""",
)  # fmt: skip
_UNDER = tuple(
    f"""SELECT {_COLUMNS} {_FROM}
    WHERE c.relation_id = %(relation)s AND c.{key_hash} = %(hash)s
      AND (c.lsn, c.seq, c.transaction_id) > (%(lsn)s::pg_lsn, %(seq)s, %(id)s)
    ORDER BY c.lsn, c.seq, c.transaction_id LIMIT {PAGE}"""
    for key_hash in ("key_hash", "old_key_hash")
)  # fmt: skip
# Of shapes in which rows were known by something else, or by nothing: every change is looked at.
_LIKE = f"""SELECT {_COLUMNS} {_FROM}
    WHERE c.relation_id = ANY(%(relations)s) AND c.version_id = ANY(%(versions)s)
      AND (c.new @> %(key)s::jsonb OR c.old @> %(key)s::jsonb)
      AND (c.transaction_id, c.seq) > (%(id)s, %(seq)s)
    ORDER BY c.transaction_id, c.seq LIMIT {PAGE}"""

_IS_MASKED = f"""
    EXISTS (SELECT FROM unnest(%(names)s::text[]) k
            WHERE '{orjson.dumps(MASKED).decode()}' IN (c.new->k, c.old->k))
"""
# No hash is kept of a key that was masked before it was stored.
_UNFINDABLE = f"""
    SELECT count(*) FROM change c
    WHERE c.relation_id = ANY(%(relations)s) AND c.key_hash IS NULL AND c.op IN ('I', 'U', 'D', 'S')
      AND {_IS_MASKED}
"""  # noqa: S608 (of constants)
_FINDABLE = f"""
    SELECT EXISTS (
        SELECT FROM change c
        WHERE c.relation_id = ANY(%(relations)s) AND c.op IN ('I', 'U', 'D', 'S')
          AND NOT {_IS_MASKED})
"""  # noqa: S608 (of constants)


@dataclass(frozen=True, slots=True)
class Found:
    """A change of a row, without its values."""

    transaction_id: int
    seq: int
    place: Place
    op: str
    before: Key | None
    after: Key | None
    key_hash: int | None
    old_key_hash: int | None
    counts: bool
    xid: int | None = None

    @property
    def in_file(self) -> tuple[int, int | None, int | None, int]:
        """Where it is in files: incarnation, commit LSN, xid, seq."""
        commit = self.place.commit_lsn
        return self.place.incarnation, commit if self.counts else None, self.xid, self.seq

    @property
    def touch(self) -> Touch:
        """As the trail of a row is followed by."""
        keys = self.before, self.after
        return touch_of(self.place, self.op, *keys, self.transaction_id, self.counts)


@dataclass(frozen=True)
class ErasedTable:
    """The rows of one table as they are found for erasing."""

    table: TableRows

    @property
    def all_names(self) -> list[str]:
        """``schema.table`` as last seen, and every other name it had; as filters have them, too."""
        now, shapes = self.table.relation, self.table.shapes.versions.values()
        found = [(now.schema, now.table), *((v.schema, v.table) for v in shapes)]
        return list(dict.fromkeys(n for each in found for n in (".".join(each), table_word(*each))))

    @cached_property
    def names(self) -> list[str]:
        """Every column that was ever a part of the key."""
        versions = self.table.shapes.versions.values()
        return sorted({name for v in versions for name in v.key_columns})

    def withheld(self, columns: Collection[str]) -> bool:
        """Whether one of these columns is masked: then nobody learns of a guess."""
        return bool(withheld_reason(reading_session(), self.table.relation_ids, columns, ""))

    def unfindable(self, columns: Collection[str]) -> int:
        """How many changes may be of any row: one of these columns was masked at ingest."""
        wanted = {"relations": list(self.table.relation_ids), "names": list(columns)}
        return int(rows(_UNFINDABLE, wanted)[0][0])

    def has_keys(self, columns: Collection[str]) -> bool:
        """Return whether the record has a change with none of these columns masked at ingest."""
        wanted = {"relations": list(self.table.relation_ids), "names": list(columns)}
        return bool(rows(_FINDABLE, wanted)[0][0])

    def touches(self, key: Key) -> list[Touch]:
        """What begins, ends or moves a row under a key."""
        hashes = [each for each, _ in self.table.hashes(dict(key))]
        found = {
            (each.transaction_id, each.seq): each
            for statement in (_TOUCHES if hashes else ())
            for each in self._read(statement, {**self._asked(), "hashes": hashes})
            if key in (each.before, each.after)
        }
        return [each.touch for each in found.values()]

    def linked(self, key: Key) -> set[Key]:
        """Keys under which the same row was known in shapes with another key."""
        return {
            other
            for page in self.like(key)
            for each in page
            for other in (each.before, each.after)
            if other is not None and other != key
        }

    def like(self, key: Key) -> Iterator[list[Found]]:
        """Changes of the row in shapes with another key, or none, some at a time."""
        versions, names = self.table.shapes.versions.values(), {name for name, _ in key}
        others = [version.id for version in versions if {*version.key_columns} != names]
        text = orjson.dumps(dict(key)).decode()
        wanted = {**self._asked(), "versions": others, "key": text, "id": 0, "seq": 0}
        while others and (page := self._read(_LIKE, wanted)):
            yield page
            wanted |= {"id": page[-1].transaction_id, "seq": page[-1].seq}

    def under(self, spans: Sequence[Span]) -> Iterator[list[Found]]:
        """Every change that belongs to some of the spans, some at a time."""
        by_key: dict[Key, list[Span]] = {}
        for span in spans:
            by_key.setdefault(span.key, []).append(span)
        for key in by_key:
            for key_hash, _ in self.table.hashes(dict(key)):
                for relation in self.table.relation_ids:
                    for statement in _UNDER:
                        yield from self._pages(statement, relation, key_hash, by_key)

    def _pages(
        self, statement: str, relation: int, key_hash: int, spans: Mapping[Key, Sequence[Span]]
    ) -> Iterator[list[Found]]:
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

    def _read(self, statement: str, wanted: Mapping[str, Any]) -> list[Found]:
        return [self._found(row) for row in rows(statement, wanted)]

    def _found(self, row: Sequence[Any]) -> Found:
        identifier, seq, incarnation, lsn, commit, op, version_id = row[:7]
        old, new = (None if image is None else orjson.loads(image) for image in row[7:9])
        version = self.table.shapes.versions.get(version_id)
        names = version.key_columns if version else []
        place = Place(incarnation, lsn, seq, commit)
        before, after = key_in(names, old, new), key_in(names, new, old)
        hashes = row[9], row[10]
        return Found(identifier, seq, place, op, before, after, *hashes, bool(row[11]), row[12])


def belongs(found: Found, spans: Mapping[Key, Sequence[Span]]) -> bool:
    """Whether a change is of a row that one of the spans is of."""
    return any(
        span.holds(found.place, found.op, found.transaction_id)
        for key in (found.before, found.after)
        if key is not None
        for span in spans.get(key, ())
    )


def key_in(names: Iterable[str], *images: Mapping[str, Any] | None) -> Key | None:
    """Its values, each from the first image that has it; None where one is no text, or in none."""
    known: Mapping[str, Any] = ChainMap(*filter(None, images))  # type: ignore[arg-type]
    values = {name: known.get(name, ...) for name in names}
    if not all(value is None or isinstance(value, str) for value in values.values()):
        return None
    return key_of(values) if values else None


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
    return {"$erased": True, "$on": day.isoformat()}


@dataclass(slots=True)
class Tally:
    changes: int = 0
    large_values: int = 0
    transactions: set[int] = field(default_factory=set)
    tables: dict[str, int] = field(default_factory=dict)

    def add(self, table: str, page: Sequence[Found]) -> None:
        self.changes += len(page)
        self.tables[table] = self.tables.get(table, 0) + len(page)
        self.transactions |= {each.transaction_id for each in page}

    def to_json(self) -> dict[str, Any]:
        """As it is recorded; ``days``: whose partitions hold them."""
        return {
            "changes": self.changes,
            "transactions": len(self.transactions),
            "large_values": self.large_values,
            "days": sorted({day_of(each).isoformat() for each in self.transactions}),
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
            large = self.large_values(page)
            cursor.execute(_LARGE, wanted)
            cursor.execute(_UPDATE, wanted)
        return large

    def large_values(self, page: Sequence[Found]) -> int:
        """How many would go along."""
        return int(rows(_LARGE_COUNT, self._asked(page))[0][0])

    def left(self, page: Sequence[Found]) -> int:
        """How many of these hold a value that is to be erased."""
        return int(rows(_LEFT, self._asked(page))[0][0])

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
