"""Read the shapes of a table: the key in each, and the values that stay valid after a change."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import orjson

from decoder.scalars import LSN
from replview.store.read.relation_shapes import VersionShape, made_anew
from replview.store.read.rows import ChangeRow, RowStep
from replview.store.read.session import ReadSession

_VERSIONS = """
    SELECT v.id, v.relation_id, r.oid, v.schema, v."table", v.number, v.replica_identity,
           v.columns, v.key_columns, v.intervals, v.made, v.first_lsn, v.first_seen_at
    FROM relation_version v JOIN relation r ON r.id = v.relation_id
    WHERE v.relation_id = ANY(%s) ORDER BY v.relation_id, v.number
"""


@dataclass(frozen=True, slots=True)
class Version(VersionShape):
    """One shape of a table, and the places at which it came into force."""

    #: The LSNs at which it came into force; None: unknown. Empty: its transaction was rolled back.
    since: tuple[int | None, ...]
    #: The origin of its columns, as far as read from the source's catalog: ``made_anew``.
    made: dict[str, list[int]]
    first_lsn: str | None
    first_seen_at: Any

    @property
    def unsure(self) -> set[str]:
        """Return columns that may have been altered while this shape was in force.

        The source's catalog was read only after they had been altered once more.
        """
        return {name for name, facts in self.made.items() if len(facts) < 3}

    def kinds(self) -> dict[str, tuple[Any, Any]]:
        """Return ``{column: (type's oid, modifier)}``."""
        return {c["name"]: (c.get("type_oid"), c.get("typmod")) for c in self.columns}


@dataclass(slots=True)
class Shapes:
    """All versions of some tables, by their number in the store."""

    versions: dict[int, Version] = field(default_factory=dict)
    #: The columns altered along versions that followed one another.
    _altered: dict[tuple[int, ...], frozenset[str]] = field(default_factory=dict)
    _column_names: dict[int, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, session: ReadSession, relation_ids: Collection[int]) -> "Shapes":
        """Read the versions of these relations from the store, in one query."""
        found = {}
        for row in session.prepared_rows(_VERSIONS, [list(relation_ids)]) if relation_ids else ():
            columns, keys, intervals, made = (orjson.loads(row[n] or "{}") for n in range(7, 11))
            since = tuple(
                int(LSN.parse(each["lsn"])) if each.get("lsn") else None
                for each in intervals
                if not each.get("rolled_back")
            )
            found[row[0]] = Version(*[*row[:7], columns, keys, since, made, *row[11:]])
        return cls(found)

    def numbered(self, relation_id: int | None, number: int | None) -> Version | None:
        """Return the version of a table by the number that pages show."""
        for version in self.versions.values():
            if (version.relation_id, version.number) == (relation_id, number):
                return version
        return None

    def column_names(self, version_id: int) -> frozenset[str]:
        """Return the columns of a version; empty where it is unknown."""
        if version_id not in self._column_names:
            version = self.versions.get(version_id)
            names = frozenset(version.kinds() if version else ())
            self._column_names[version_id] = names
        return self._column_names[version_id]

    def key_after(self, step: RowStep) -> tuple[Any, ...] | None:
        """Return the key's values after a step (a delete: before); None: unknown."""
        return self._key(step, (step.new, step.old))

    def key_before(self, step: RowStep) -> tuple[Any, ...] | None:
        """Return the key's values before a step; None: unknown."""
        return self._key(step, (step.old, step.new))

    def have_one_key(self, step: RowStep, other: RowStep) -> bool:
        """Return whether two steps name their rows by the same columns."""
        versions = (self.versions.get(each.version_id) for each in (step, other))
        names = [set(version.key_columns) for version in versions if version is not None]
        return len(names) == 2 and names[0] == names[1]

    def _key(
        self, step: RowStep, images: Iterable[Mapping[str, Any] | None]
    ) -> tuple[Any, ...] | None:
        version = self.versions.get(step.version_id)
        return None if version is None else key_values(version.key_columns, *images)

    def outliving(
        self, values: Mapping[str, object], step: RowStep, later: RowStep
    ) -> dict[str, object]:
        """Return the values after ``step`` that are still valid before ``later``.

        Values of a column that was altered in between are not.
        """
        altered = self.altered(step, later)
        if altered is None:
            return {}
        return {name: value for name, value in values.items() if name not in altered}

    def altered(self, step: RowStep, later: RowStep) -> frozenset[str] | None:
        """Return the columns that ALTER TABLE added, dropped or rewrote between two changes.

        None: perhaps all of them, as the table is another or its shapes are unknown.
        """
        passed = (step.version_id, *self._between(step, later), later.version_id)
        if step.relation_id != later.relation_id:
            return None
        if passed not in self._altered:
            if not self.versions.keys() >= {*passed}:
                return None
            self._altered[passed] = self._altered_along(passed)
        return self._altered[passed]

    def altered_between(self, one: int, other: int) -> frozenset[str]:
        """Return the columns altered between two versions of a table and those numbered between."""
        relation_id = self.versions[one].relation_id
        first, last = sorted((self.versions[one].number, self.versions[other].number))
        mine = (v for v in self.versions.values() if v.relation_id == relation_id)
        within = (v for v in mine if first <= v.number <= last)
        passed = [v.id for v in within if v.since or v.id in (one, other)]
        return self._altered_along(passed)

    def _altered_along(self, passed: Sequence[int]) -> frozenset[str]:
        versions = [self.versions[each] for each in passed]
        altered = (altered_columns(*both) for both in pairwise(versions))
        return frozenset().union(*(version.unsure for version in versions), *altered)

    def _between(self, step: RowStep, later: RowStep) -> list[int]:
        """Return other versions that came into force between two steps of one table, in order."""
        if step.relation_id != later.relation_id:
            return []
        found = (
            version
            for version in self.versions.values()
            if version.relation_id == step.relation_id
            and version.id not in (step.version_id, later.version_id)
            and any(at is None or step.lsn < at <= later.lsn for at in version.since)
            and (None not in version.since or self._numbered_between(version, step, later))
        )
        return [version.id for version in sorted(found, key=lambda version: version.number)]

    def _numbered_between(self, version: Version, step: RowStep, later: RowStep) -> bool:
        """Return whether a version without a position is between two steps by its number."""
        ends = [self.versions.get(each.version_id) for each in (step, later)]
        numbers = [each.number for each in ends if each is not None]
        return len(numbers) == 2 and min(numbers) < version.number < max(numbers)


def altered_columns(before: Version, after: Version) -> frozenset[str]:
    """Return the columns whose values in one shape say nothing about the next.

    Only one of the shapes has the column, its type is another, or it was dropped and added again,
    or rewritten.

    PostgreSQL adds a column behind all others: where a column is now behind one that it preceded,
    it and all that follow are new.
    """
    old, new = before.kinds(), after.kinds()
    places = {name: place for place, name in enumerate(old)}
    found, last = (old.keys() ^ new.keys()) | made_anew(before.made, after.made), -1
    for name, kind in new.items():
        place = places.get(name, last)
        if place < last or old.get(name, kind) != kind:
            found.add(name)
        last = place if place >= last else len(places)
    return frozenset(found)


def altered_since(session: ReadSession, changes: Iterable[ChangeRow]) -> list[str]:
    """Return a sentence for each table of these changes that differs by now, as recorded."""
    seen = {(c.relation_id, c.version): None for c in changes if c.relation_id and not c.hidden}
    sql = "SELECT id, coalesce(current_version_id, 0) FROM relation WHERE id = ANY(%s)"
    current = dict(session.rows(sql, [[table for table, _ in seen]]))
    shapes, found = Shapes.of(session, current), []
    for table, number in seen:
        then, now = shapes.numbered(table, number), shapes.versions.get(current.get(table, 0))
        if then is None or now is None:
            continue
        new, altered = now.kinds(), shapes.altered_between(then.id, now.id)
        other, doubt = "another column, of another type or rewritten", {*then.unsure, *now.unsure}
        old = {n: f"perhaps {other}" if n in doubt else other for n in then.kinds()}
        parts = [f"{n} is {old[n] if n in new else 'gone'}" for n in old if n in altered]
        parts += [f"{name} was added" for name in new if name not in old]
        if (then.schema, then.table) != (now.schema, now.table):
            parts.append(f"it is called {now.schema}.{now.table}")
        if parts:
            found.append(f"{then.schema}.{then.table} was altered since: {', '.join(parts)}.")
    return found


def key_values(
    key_columns: Iterable[str], *images: Mapping[str, Any] | None
) -> tuple[Any, ...] | None:
    """Return the key's values, each from the first image that has it; None: one is unknown."""
    found = []
    for name in key_columns:
        image = next((image for image in images if image and name in image), None)
        if image is None or isinstance(image[name], Mapping):
            return None
        found.append(image[name])
    return tuple(found) or None
