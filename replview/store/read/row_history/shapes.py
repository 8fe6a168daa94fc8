"""The shapes a table had: what a row is known by in each, and which values outlive a change."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from decoder.scalars import LSN
from replview.store.read.relation_shapes import VersionShape
from replview.store.read.rows import Step
from replview.store.read.session import ReadSession

_VERSIONS = """
    SELECT v.id, v.relation_id, r.oid, v.schema, v."table", v.number, v.replica_identity,
           v.columns, v.key_columns, v.intervals, v.first_lsn, v.first_seen_at
    FROM relation_version v JOIN relation r ON r.id = v.relation_id
    WHERE v.relation_id = ANY(%s) ORDER BY v.relation_id, v.number
"""


@dataclass(frozen=True, slots=True)
class Version(VersionShape):
    """One shape of a table, with when it was in force."""

    #: Where it came into force, each time; None: not told.
    since: tuple[int | None, ...]
    first_lsn: str | None
    first_seen_at: Any

    def kinds(self) -> dict[str, tuple[Any, Any]]:
        """``{column: (type's oid, modifier)}``."""
        return {c["name"]: (c.get("type_oid"), c.get("typmod")) for c in self.columns}


@dataclass(slots=True)
class Shapes:
    """All versions of some tables, by their number in the store."""

    versions: dict[int, Version] = field(default_factory=dict)

    @classmethod
    def of(cls, session: ReadSession, relation_ids: Collection[int]) -> "Shapes":
        """Read from the store, in one query."""
        found = {}
        for row in session.prepared_rows(_VERSIONS, [list(relation_ids)]) if relation_ids else ():
            columns, keys, intervals = (orjson.loads(row[index]) for index in (7, 8, 9))
            since = tuple(
                int(LSN.parse(each["lsn"])) if each.get("lsn") else None for each in intervals
            )
            found[row[0]] = Version(*[*row[:7], columns, keys, since, *row[10:]])
        return cls(found)

    def numbered(self, relation_id: int | None, number: int | None) -> Version | None:
        """The version of a table by the number pages show."""
        for version in self.versions.values():
            if (version.relation_id, version.number) == (relation_id, number):
                return version
        return None

    def key_after(self, step: Step) -> tuple[Any, ...] | None:
        """The key's values that the row has after a step (a delete: had); None: not told."""
        return self._key(step, (step.new, step.old))

    def key_before(self, step: Step) -> tuple[Any, ...] | None:
        """The key's values that the row had before a step."""
        return self._key(step, (step.old, step.new))

    def _key(
        self, step: Step, images: Iterable[Mapping[str, Any] | None]
    ) -> tuple[Any, ...] | None:
        version = self.versions.get(step.version_id)
        return None if version is None else key_values(version.key_columns, *images)

    def outliving(self, values: Mapping[str, object], step: Step, later: Step) -> dict[str, object]:
        """Of a row's values after ``step`` those that must still be so before ``later``: not of a
        column that was dropped, renamed or given another type in between.
        """
        if step.version_id == later.version_id and not self._between(step, later):
            return dict(values)
        passed = [step.version_id, *self._between(step, later), later.version_id]
        kinds = [v.kinds() for v in (self.versions.get(each) for each in passed) if v is not None]
        if step.relation_id != later.relation_id or len(kinds) != len(passed):
            return {}
        return {
            name: value
            for name, value in values.items()
            if all(kind.get(name, ()) == kinds[0].get(name, ()) for kind in kinds)
        }

    def _between(self, step: Step, later: Step) -> list[int]:
        """Other versions that came into force between two steps of one table."""
        if step.relation_id != later.relation_id:
            return []
        return [
            version.id
            for version in self.versions.values()
            if version.relation_id == step.relation_id
            and version.id not in (step.version_id, later.version_id)
            and any(at is None or step.lsn < at <= later.lsn for at in version.since)
            and (None not in version.since or self._numbered_between(version, step, later))
        ]

    def _numbered_between(self, version: Version, step: Step, later: Step) -> bool:
        """Where no position was told, the order of first sight must do."""
        ends = [self.versions.get(each.version_id) for each in (step, later)]
        numbers = [each.number for each in ends if each is not None]
        return len(numbers) == 2 and min(numbers) < version.number < max(numbers)


def key_values(
    key_columns: Iterable[str], *images: Mapping[str, Any] | None
) -> tuple[Any, ...] | None:
    """The key's values, each from the first image that has it; None: one is missing or marked."""
    found = []
    for name in key_columns:
        image = next((image for image in images if image and name in image), None)
        if image is None or isinstance(image[name], Mapping):
            return None
        found.append(image[name])
    return tuple(found) or None
