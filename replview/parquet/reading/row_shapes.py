"""What one table's rows were like: their shapes, and where what is known of them ends.

The same rules as the pages' (``replview.store.read.row_history.shapes`` and ``row_breaks``), for
one table in one life of a slot, read without Django.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from psycopg import sql

from decoder.scalars import LSN
from replview.parquet.reading.connecting import Connection
from replview.parquet.reading.places import NOT_ABORTED

#: Place in a life: the commit (for a baseline's row its position), whether it is a change of the
#: stream (a baseline comes before the commit that begins where it stands), LSN, seq.
Place = tuple[int, int, int, int]
#: After every commit.
OPEN_END = (1 << 63) - 1

_VERSIONS = """
    SELECT id, number, columns::text, key_columns::text, intervals::text
    FROM relation_version WHERE relation_id = %s ORDER BY number
"""
_BREAKS = sql.SQL("""
    SELECT 'truncated', (t.commit_lsn - '0/0')::bigint, (c.lsn - '0/0')::bigint, c.seq
    FROM change c JOIN transaction t ON t.id = c.transaction_id
    WHERE c.relation_id = %(relation)s AND c.key_hash IS NULL AND c.op = 'T'
      AND t.incarnation_id = %(life)s AND t.state = 'committed' AND {}
    UNION ALL
    SELECT 'left out', (t.commit_lsn - '0/0')::bigint, (t.commit_lsn - '0/0')::bigint, 0
    FROM quarantine q JOIN transaction t ON t.xid = q.xid AND t.incarnation_id = q.incarnation_id
    WHERE q.incarnation_id = %(life)s AND q.decision = 'skip' AND t.state = 'skipped'
      AND t.commit_lsn IS NOT NULL
    UNION ALL
    SELECT 'left out', ((late->>1)::pg_lsn - '0/0')::bigint,
           ((late->>1)::pg_lsn - '0/0')::bigint, 0
    FROM setting CROSS JOIN LATERAL jsonb_each(setting.value) AS slot
    CROSS JOIN LATERAL jsonb_array_elements(slot.value->'late') AS late
    WHERE setting.name = 'retention.slots' AND (late->>0)::bigint = %(life)s
    UNION ALL
    SELECT 'baseline', (b.lsn - '0/0')::bigint, b.transaction_id, 0
    FROM baseline b
    WHERE b.incarnation_id = %(life)s AND b.state = 'done' AND b.transaction_id IS NOT NULL
    UNION ALL
    SELECT 'unpublished', 0, 0, 0
    FROM relation r CROSS JOIN LATERAL (
        SELECT look.facts FROM publication_look look WHERE look.slot_id = r.slot_id
        ORDER BY look.last_seen_at DESC LIMIT 1
    ) p CROSS JOIN LATERAL jsonb_array_elements(p.facts->'tables') AS told
    WHERE r.id = %(relation)s
      AND p.facts @? '$.publications[*] ? (@.insert==false||@.update==false||@.delete==false)'
      AND told->>'schema' = r.schema AND told->>'table' = r."table"
      AND NOT (told->>'operations' LIKE '%%I%%' AND told->>'operations' LIKE '%%U%%'
               AND told->>'operations' LIKE '%%D%%')
""").format(NOT_ABORTED)


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a row; LSNs as numbers."""

    transaction_id: int
    seq: int
    lsn: int
    op: str
    old_kind: str | None
    old: dict[str, Any] | None
    new: dict[str, Any] | None
    version_id: int
    key_hash: int | None
    old_key_hash: int | None
    commit_lsn: int

    @property
    def place(self) -> Place:
        """Where in its life it took effect."""
        return self.commit_lsn, int(self.op != "S"), self.lsn, self.seq

    @property
    def told(self) -> dict[str, Any]:
        """The row after it as far as it told: also what a whole old row holds of columns that
        were not sent because they did not change.
        """
        if self.op == "D":
            return {}
        return {**self.old, **(self.new or {})} if self.old else self.new or {}

    def side(self, column: str) -> str:
        """Which of its images a told value is in."""
        return "new" if self.new and column in self.new else "old"


@dataclass(frozen=True, slots=True)
class Shape:
    """One version of the table."""

    id: int
    number: int
    #: ``{column: (type's oid, modifier)}``.
    kinds: Mapping[str, tuple[Any, Any]]
    key_columns: tuple[str, ...]
    #: Where it came into force, each time; None: not told.
    since: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Shapes:
    """All versions that a table had."""

    versions: dict[int, Shape]

    @classmethod
    def read(cls, connection: Connection, relation_id: int) -> "Shapes":
        """From the store."""
        found = {}
        for identifier, number, *texts in connection.execute(_VERSIONS, [relation_id]):
            columns, keys, intervals = (orjson.loads(text) for text in texts)
            since = tuple(
                int(LSN.parse(each["lsn"])) if each.get("lsn") else None for each in intervals
            )
            kinds = {each["name"]: (each.get("type_oid"), each.get("typmod")) for each in columns}
            found[identifier] = Shape(identifier, number, kinds, tuple(keys), since)
        return cls(found)

    def key_after(self, step: Step) -> tuple[Any, ...] | None:
        """The key's values that the row has after a step (a delete: had); None: not told."""
        return self._key(step, step.new, step.old)

    def key_before(self, step: Step) -> tuple[Any, ...] | None:
        """The key's values that the row had before a step."""
        return self._key(step, step.old, step.new)

    def _key(self, step: Step, *images: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
        shape = self.versions.get(step.version_id)
        found = []
        for name in () if shape is None else shape.key_columns:
            image = next((image for image in images if image and name in image), None)
            # (A mark is no value: masked, erased.)
            if image is None or isinstance(image[name], dict):
                return None
            found.append(image[name])
        return tuple(found) or None

    def outliving(self, values: Mapping[str, Any], step: Step, later: Step) -> Mapping[str, Any]:
        """Of a row's values after ``step`` those that must still be so before ``later``.

        A column that was dropped, renamed or given another type in between is another column, or
        its text is another: its value is not carried over.
        """
        between = self._between(step, later)
        if step.version_id == later.version_id and not between:
            return values
        passed = [step.version_id, *between, later.version_id]
        shapes = [self.versions.get(each) for each in passed]
        kinds = [shape.kinds for shape in shapes if shape is not None]
        if len(kinds) != len(passed):
            return {}
        return {
            name: value
            for name, value in values.items()
            if all(kind.get(name, ()) == kinds[0].get(name, ()) for kind in kinds)
        }

    def _between(self, step: Step, later: Step) -> list[int]:
        """Other versions that came into force between two steps."""
        if len(self.versions) == 1:
            return []
        return [
            shape.id
            for shape in self.versions.values()
            if shape.id not in (step.version_id, later.version_id)
            and any(at is None or step.lsn < at <= later.lsn for at in shape.since)
            and (None not in shape.since or self._numbered_between(shape, step, later))
        ]

    def _numbered_between(self, shape: Shape, step: Step, later: Step) -> bool:
        """Where no position was told, the order of first sight must do."""
        ends = [self.versions.get(each.version_id) for each in (step, later)]
        numbers = [each.number for each in ends if each is not None]
        return len(numbers) == 2 and min(numbers) < shape.number < max(numbers)


@dataclass(frozen=True, slots=True)
class Breaks:
    """Where what is known of the table's rows ends."""

    #: In order: it was emptied, or a transaction that may have changed any row is missing.
    places: list[Place] = field(default_factory=list)
    #: ``(position, transaction)``.
    baselines: list[tuple[int, int]] = field(default_factory=list)
    #: Some operation is not published: rows change unseen.
    unpublished: bool = False

    @classmethod
    def read(cls, connection: Connection, relation_id: int, life: int) -> "Breaks":
        """All there are of a table in a life."""
        told = {"relation": relation_id, "life": life}
        return cls.of(connection.execute(_BREAKS, told))

    @classmethod
    def of(cls, rows: Iterable[tuple[Any, ...]]) -> "Breaks":
        """As the query tells of them."""
        places, baselines, unpublished = [], [], False
        for kind, commit, lsn, seq in rows:
            if kind == "baseline":
                baselines.append((commit, lsn))
            elif kind == "unpublished":
                unpublished = True
            else:
                places.append((commit, 1, lsn, seq))
        return cls(sorted(places), baselines, unpublished)

    def between(self, after: Place, before: Place) -> bool:
        """Whether there is one strictly between two places."""
        index = bisect_left(self.places, (*after[:3], after[3] + 1))
        return index < len(self.places) and self.places[index] < before
