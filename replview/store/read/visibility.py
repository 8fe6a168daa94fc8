"""What somebody may see of values: the tables of their rights, without masked columns.

A ``Visibility`` stands in the session that reads are given: of a request, a socket or a token what
its user may see (``access.visibility``), else (commands, workers, Spark) every table, and still no
masked column. Nearly always nothing is hidden or masked (``Visibility.open``).

Rules and rights are read when first asked for, and again after a few seconds: a download or a
socket that lasts for hours obeys a rule made meanwhile.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from replview.store.read import mask_rules

#: What stands in a masked value's place, whether it was taken away at ingest or on display.
MASKED: dict[str, Any] = {"$masked": True}
#: Said where a viewer has no right on the table.
NO_RIGHT = "no right to see values"
#: Rules and rights that were read longer ago are read again.
FRESH_SECONDS = 3.0

_FACTS = """
    SELECT r.id, s.source_id, r.schema, r."table", v.id, v.number, v.schema, v."table",
           v.xmin::text || v.ctid::text
    FROM relation r JOIN slot s ON s.id = r.slot_id
    LEFT JOIN relation_version v ON v.relation_id = r.id
    WHERE r.id = ANY(%s)
"""
# Only columns that a rule may be of leave the server: a source may have made thousands of shapes
# with more than a thousand columns.
_MASKABLE = """
    SELECT v.id, c->>'name', c->>'type' FROM relation_version v, jsonb_array_elements(v.columns) c
    WHERE v.id = ANY(%s) AND c->>'name' ~ %s
"""
_NAMED = """
    SELECT c->>'name' FROM relation_version v, jsonb_array_elements(v.columns) c
    WHERE v.id = %s AND c->>'name' = ANY(%s)
"""
#: Shapes whose masked columns this process remembers, for all readers.
_MOST_JUDGED = 100_000
#: By the shape's identifier: what its masked columns were worked out from, and which they are.
_judged: dict[int, tuple[object, frozenset[str]]] = {}
_SOURCE_OF_INCARNATION = """
    SELECT s.source_id FROM slot_incarnation i JOIN slot s ON s.id = i.slot_id WHERE i.id = %s
"""
_INCARNATION_OF = "SELECT incarnation_id FROM transaction WHERE id = %s"


class Read(Protocol):
    """Gives the rows of a statement."""

    def __call__(
        self, statement: str, parameters: Sequence[Any] | None = None, /
    ) -> list[tuple[Any, ...]]:
        """Once, or many times."""


@dataclass(frozen=True, slots=True)
class Grants:
    """What somebody may see, as it is now."""

    #: The sources there are for them; None: all.
    sources: frozenset[int] | None = None
    #: Patterns of the tables of each source; None: all of all.
    patterns: Mapping[int, tuple[str, ...]] | None = None
    #: What nobody sees.
    rules: tuple[mask_rules.Rule, ...] = ()


def nobodys_visibility(read: Read) -> "Visibility":
    """Return the visibility of a reader without an account: all tables, masks applied."""
    return Visibility(read, lambda: Grants(rules=read_rules(read)))


def read_rules(read: Read) -> tuple[mask_rules.Rule, ...]:
    """Read all mask rules as they are now, by one small statement."""
    return mask_rules.rules_of_rows(read(mask_rules.RULES_SQL))


def matches_table(patterns: Sequence[str], schema: str, table: str) -> bool:
    """Whether a pattern is of this table; only ``*`` means anything but itself."""
    name = f"{schema}.{table}"
    return any(mask_rules.glob(pattern).fullmatch(name) for pattern in patterns)


@dataclass(slots=True)
class _Known:
    """What is known of one table: all its versions count, and by all their names."""

    hidden: bool = False
    masked: frozenset[str] = frozenset()
    source_id: int | None = None
    #: Versions this was worked out from, by identifier and by number.
    versions: set[int] = field(default_factory=set)
    #: Of those that were asked for, the masked columns they have.
    masked_in: dict[int, frozenset[str]] = field(default_factory=dict)
    numbers: set[int] = field(default_factory=set)


class Visibility:
    __slots__ = ("_grants", "_known", "_messages", "_now", "_open", "_read_rows", "_until")

    def __init__(self, read_rows: Read, grants: Callable[[], Grants]) -> None:
        """``grants`` gives what the asker may see now; ``read_rows`` reads the record."""
        self._read_rows = read_rows
        self._grants = grants
        self._until = 0.0
        self._open = True
        self._now = Grants()
        self._known: dict[int, _Known] = {}
        self._messages: dict[int, bool] = {}

    @property
    def sources(self) -> frozenset[int] | None:
        """The sources there are for the asker; None: all."""
        self._refresh()
        return self._now.sources

    @property
    def open(self) -> bool:
        """Whether nothing is hidden or masked."""
        if time.monotonic() >= self._until:
            self._refresh()
        return self._open

    @property
    def restricted(self) -> bool:
        """Some table, or source, may be hidden."""
        self._refresh()
        return self._now.sources is not None or self._now.patterns is not None

    def hides(self, relation_id: int, *, version: int | None = None) -> bool:
        """No right on the table: values, keys and text of its rows are withheld."""
        return not self.open and self._of(relation_id, version=version).hidden

    def masked(
        self, relation_id: int, *, version: int | None = None, version_id: int | None = None
    ) -> frozenset[str]:
        """Columns nobody sees; ``version`` (or its identifier): one that must be known of."""
        if self.open:
            return frozenset()
        return self._of(relation_id, version=version, version_id=version_id).masked

    def masked_in(self, relation_id: int, version_id: int) -> frozenset[str]:
        """Return those of ``masked`` that a row of this version has."""
        masked = self.masked(relation_id, version_id=version_id)
        if not masked:
            return masked
        known = self._of(relation_id).masked_in
        if version_id not in known:
            found = self._read_rows(_NAMED, [version_id, list(masked)])
            known[version_id] = frozenset(name for (name,) in found)
        return known[version_id]

    def hides_table(self, source_id: int, schema: str, table: str) -> bool:
        """Whether a table is hidden that may not be in the record."""
        patterns = self._patterns(source_id)
        return patterns is not None and not matches_table(patterns, schema, table)

    def _patterns(self, source_id: int) -> tuple[str, ...] | None:
        """Of the tables of a source that are seen; None: all are."""
        self._refresh()
        if self._now.sources is not None and source_id not in self._now.sources:
            return ()
        return None if self._now.patterns is None else self._now.patterns.get(source_id, ())

    def masked_of_table(
        self, source_id: int, schema: str, table: str, columns: Iterable[Mapping[str, Any]]
    ) -> frozenset[str]:
        """The same as ``masked`` of such a table; columns as ``relation_version`` keeps them."""
        self._refresh()
        named = mask_rules.named_columns(columns)
        return frozenset(mask_rules.masked_by(self._now.rules, source_id, schema, table, named))

    def hides_messages(self, source_id: int) -> bool:
        """Not every table of the source may be seen: what its messages hold is withheld."""
        patterns = self._patterns(source_id)
        return patterns is not None and not {"*", "*.*"}.intersection(patterns)

    @property
    def hides_some_messages(self) -> bool:
        """Whether the messages of some source are hidden."""
        sources = self.sources
        if self._now.patterns is None:
            return sources is not None
        return sources is None or any(map(self.hides_messages, sources))

    def hides_message_in(self, transaction_id: int) -> bool:
        """Whether a message in this transaction is hidden."""
        if self.open or not self.restricted:
            return False
        incarnation_id = self._one(_INCARNATION_OF, transaction_id)
        return incarnation_id is None or self.hides_messages_of_incarnation(incarnation_id)

    def hides_messages_of_incarnation(self, incarnation_id: int) -> bool:
        """The same, of messages of an incarnation of a slot, and of what was made of them."""
        if self.open or not self.restricted:
            return False
        if incarnation_id not in self._messages:
            source_id = self._one(_SOURCE_OF_INCARNATION, incarnation_id)
            self._messages[incarnation_id] = source_id is None or self.hides_messages(source_id)
        return self._messages[incarnation_id]

    def versions(self, relation_id: int) -> frozenset[int]:
        """The identifiers of the shapes that ``masked`` knows of."""
        return frozenset() if self.open else frozenset(self._of(relation_id).versions)

    def learn(self, relation_ids: Collection[int]) -> None:
        """Read what is not known yet of these tables, in one query."""
        missing = [] if self.open else [r for r in relation_ids if r not in self._known]
        if missing:
            self._read(missing)

    def _of(
        self, relation_id: int, *, version: int | None = None, version_id: int | None = None
    ) -> _Known:
        known = self._known.get(relation_id)
        if (
            known is None
            or (version is not None and version not in known.numbers)
            or (version_id is not None and version_id not in known.versions)
        ):
            self._read([relation_id])
            known = self._known[relation_id]
            # Of a version that is gone nothing more will be known.
            known.numbers |= {version} if version is not None else set()
            known.versions |= {version_id} if version_id is not None else set()
        return known

    def _read(self, relation_ids: Collection[int]) -> None:
        # A table that is not in the record any more: nobody can say what may be seen of it.
        found = {relation_id: _Known(hidden=True) for relation_id in relation_ids}
        rows = self._read_rows(_FACTS, [list(relation_ids)])
        masked = self._masked_of_shapes([row for row in rows if row[4] is not None])
        for relation_id, source_id, schema, table, version_id, number, *_ in rows:
            known = found[relation_id]
            known.source_id = source_id
            known.hidden = self.hides_table(source_id, schema, table)
            if version_id is None:
                continue
            known.versions.add(version_id)
            known.numbers.add(number)
            known.masked |= masked[version_id]
        self._known |= found

    def _masked_of_shapes(self, rows: Sequence[tuple[Any, ...]]) -> dict[int, frozenset[str]]:
        """Shape → its masked columns, of rows of ``_FACTS``; remembered as long as nothing that
        they were worked out from is another.
        """
        rules = self._now.rules
        if not rules:
            return {row[4]: frozenset() for row in rows}
        wanted = {row[4]: (rules, *row[1:4], *row[6:]) for row in rows}
        judged = {pk: found for pk in wanted if (found := _judged.get(pk))}
        known = {pk: masked for pk, (by, masked) in judged.items() if by == wanted[pk]}
        new = [pk for pk in wanted if pk not in known]
        asked = [new, mask_rules.any_column(rules)]
        columns: dict[int, list[dict[str, Any]]] = {}
        for pk, name, kind in self._read_rows(_MASKABLE, asked) if new else ():
            columns.setdefault(pk, []).append({"name": name, "type": kind})
        for pk in new:
            _, source_id, schema, table, own_schema, own_table, _ = wanted[pk]
            # Versions keep the names of their time: what is masked under one stays so.
            masked = frozenset[str]()
            for name in {(schema, table), (own_schema, own_table)}:
                masked |= self.masked_of_table(source_id, *name, columns.get(pk, ()))
            known[pk] = masked
            _judged[pk] = wanted[pk], known[pk]
        if len(_judged) > _MOST_JUDGED:
            _judged.clear()
        return known

    def _one(self, sql: str, identifier: int) -> int | None:
        found = self._read_rows(sql, [identifier])
        return int(found[0][0]) if found else None

    def forget(self) -> None:
        """Read rules and rights anew at the next question: they were changed here."""
        self._until = 0.0

    def _refresh(self) -> None:
        if time.monotonic() < self._until:
            return
        grants = self._grants()
        # Tables, too: they get columns, and other names.
        self._known, self._messages = {}, {}
        self._now = grants
        self._open = grants.sources is None and grants.patterns is None and not grants.rules
        self._until = time.monotonic() + FRESH_SECONDS
