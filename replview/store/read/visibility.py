"""A ``Visibility`` decides which tables and columns the values that a reader gets may come from.

Each session of the record has one. For a request, a socket or a token it follows the user's rights
(``access.visibility``); commands, workers and Spark see every table. Masked columns are hidden from
all of them. Usually nothing is hidden or masked (``Visibility.open``).

Rules and rights are read at the first question, and again after a few seconds, so that a download
or a socket that lasts for hours obeys a rule made meanwhile.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from replview.store.read import mask_rules

#: Replaces a masked value, whether it was removed at ingest or is hidden on display.
MASKED: dict[str, Any] = {"$masked": True}
#: Message for a reader without a right on the table.
NO_RIGHT = "no right to see values"
#: Seconds after which rules and rights are read again.
FRESH_SECONDS = 3.0

_FACTS = """
    SELECT r.id, s.source_id, r.schema, r."table", v.id, v.number, v.schema, v."table",
           v.xmin::text || v.ctid::text
    FROM relation r JOIN slot s ON s.id = r.slot_id
    LEFT JOIN relation_version v ON v.relation_id = r.id
    WHERE r.id = ANY(%s)
"""
# The server returns only columns that a rule may match: a source may have made thousands of shapes
# with more than a thousand columns each.
_MASKABLE = """
    SELECT v.id, c->>'name', c->>'type' FROM relation_version v, jsonb_array_elements(v.columns) c
    WHERE v.id = ANY(%s) AND c->>'name' ~ %s
"""
_NAMED = """
    SELECT c->>'name' FROM relation_version v, jsonb_array_elements(v.columns) c
    WHERE v.id = %s AND c->>'name' = ANY(%s)
"""
#: Shapes whose masked columns this process remembers, for all readers.
_MOST_REMEMBERED = 100_000
#: Masked columns of each shape, by its identifier, with the facts they were derived from.
_remembered: dict[int, tuple[object, frozenset[str]]] = {}
_SOURCE_OF_INCARNATION = """
    SELECT s.source_id FROM slot_incarnation i JOIN slot s ON s.id = i.slot_id WHERE i.id = %s
"""
_INCARNATION_OF = "SELECT incarnation_id FROM transaction WHERE id = %s"


class Read(Protocol):
    """A function that runs a statement and returns its rows."""

    def __call__(
        self, statement: str, parameters: Sequence[Any] | None = None, /
    ) -> list[tuple[Any, ...]]:
        """Run the statement; it may be called any number of times."""


@dataclass(frozen=True, slots=True)
class Grants:
    """The tables and sources that one reader may see, and the mask rules, at one moment."""

    #: Identifiers of the visible sources; None: all.
    sources: frozenset[int] | None = None
    #: Patterns of the visible tables, by source; None: all tables of all sources.
    patterns: Mapping[int, tuple[str, ...]] | None = None
    #: The mask rules, which apply to every reader.
    rules: tuple[mask_rules.Rule, ...] = ()


def nobodys_visibility(read: Read) -> "Visibility":
    """Return the visibility of a reader without an account: all tables, masks applied."""
    return Visibility(read, lambda: Grants(rules=read_rules(read)))


def read_rules(read: Read) -> tuple[mask_rules.Rule, ...]:
    """Read all mask rules as they are now, by one small statement."""
    return mask_rules.rules_of_rows(read(mask_rules.RULES_SQL))


def matches_table(patterns: Sequence[str], schema: str, table: str) -> bool:
    """Return whether one of the patterns matches this table; only ``*`` is a wildcard."""
    name = f"{schema}.{table}"
    return any(mask_rules.glob(pattern).fullmatch(name) for pattern in patterns)


@dataclass(slots=True)
class _TableVisibility:
    """The known facts about one table: the union over all its versions and all their names."""

    hidden: bool = False
    masked: frozenset[str] = frozenset()
    source_id: int | None = None
    #: Versions that ``masked`` covers: their identifiers, and in ``numbers`` their numbers.
    versions: set[int] = field(default_factory=set)
    #: The masked columns that a version has, by identifier, for versions that were asked for.
    masked_in: dict[int, frozenset[str]] = field(default_factory=dict)
    numbers: set[int] = field(default_factory=set)


class Visibility:
    """The rights of one reader: which tables are hidden, and which columns are masked.

    Answers are remembered for ``FRESH_SECONDS``.
    """

    __slots__ = ("_grants", "_known", "_messages", "_now", "_open", "_read_rows", "_until")

    def __init__(self, read_rows: Read, grants: Callable[[], Grants]) -> None:
        """Store the functions that return the reader's current rights and that query the record."""
        self._read_rows = read_rows
        self._grants = grants
        self._until = 0.0
        self._open = True
        self._now = Grants()
        self._known: dict[int, _TableVisibility] = {}
        self._messages: dict[int, bool] = {}

    @property
    def sources(self) -> frozenset[int] | None:
        """Return the identifiers of the sources that the reader may see; None: all."""
        self._refresh()
        return self._now.sources

    @property
    def open(self) -> bool:
        """Return whether nothing is hidden or masked."""
        if time.monotonic() >= self._until:
            self._refresh()
        return self._open

    @property
    def restricted(self) -> bool:
        """Return whether some table or source may be hidden."""
        self._refresh()
        return self._now.sources is not None or self._now.patterns is not None

    def hides(self, relation_id: int, *, version: int | None = None) -> bool:
        """Return whether the reader has no right on the table: values, keys, text are withheld."""
        return not self.open and self._facts(relation_id, version=version).hidden

    def masked(
        self, relation_id: int, *, version: int | None = None, version_id: int | None = None
    ) -> frozenset[str]:
        """Return the masked columns of a table, over all its versions.

        ``version`` (a number) or ``version_id`` names a version that the answer has to cover.
        """
        if self.open:
            return frozenset()
        return self._facts(relation_id, version=version, version_id=version_id).masked

    def masked_in(self, relation_id: int, version_id: int) -> frozenset[str]:
        """Return the columns of ``masked`` that a row of this version has."""
        masked = self.masked(relation_id, version_id=version_id)
        if not masked:
            return masked
        by_version = self._facts(relation_id).masked_in
        if version_id not in by_version:
            rows = self._read_rows(_NAMED, [version_id, list(masked)])
            by_version[version_id] = frozenset(name for (name,) in rows)
        return by_version[version_id]

    def hides_table(self, source_id: int, schema: str, table: str) -> bool:
        """Return whether a table, which need not be in the record, is hidden."""
        patterns = self._patterns(source_id)
        return patterns is not None and not matches_table(patterns, schema, table)

    def _patterns(self, source_id: int) -> tuple[str, ...] | None:
        """Return the patterns of the visible tables of a source; None: all tables are visible."""
        self._refresh()
        if self._now.sources is not None and source_id not in self._now.sources:
            return ()
        return None if self._now.patterns is None else self._now.patterns.get(source_id, ())

    def masked_of_table(
        self, source_id: int, schema: str, table: str, columns: Iterable[Mapping[str, Any]]
    ) -> frozenset[str]:
        """Return the masked columns of a table that need not be in the record.

        ``columns`` has the form of ``relation_version.columns``.
        """
        self._refresh()
        maskable = mask_rules.named_columns(columns)
        return frozenset(mask_rules.masked_by(self._now.rules, source_id, schema, table, maskable))

    def hides_messages(self, source_id: int) -> bool:
        """Return whether messages of the source are withheld: some of its tables are hidden."""
        patterns = self._patterns(source_id)
        return patterns is not None and not {"*", "*.*"}.intersection(patterns)

    @property
    def hides_some_messages(self) -> bool:
        """Return whether the messages of some source are withheld."""
        sources = self.sources
        if self._now.patterns is None:
            return sources is not None
        return sources is None or any(map(self.hides_messages, sources))

    def hides_message_in(self, transaction_id: int) -> bool:
        """Return whether messages in this transaction are withheld."""
        if self.open or not self.restricted:
            return False
        incarnation_id = self._first_id(_INCARNATION_OF, transaction_id)
        return incarnation_id is None or self.hides_messages_of_incarnation(incarnation_id)

    def hides_messages_of_incarnation(self, incarnation_id: int) -> bool:
        """Return whether messages of this incarnation, and what derives from them, are withheld."""
        if self.open or not self.restricted:
            return False
        if incarnation_id not in self._messages:
            source_id = self._first_id(_SOURCE_OF_INCARNATION, incarnation_id)
            self._messages[incarnation_id] = source_id is None or self.hides_messages(source_id)
        return self._messages[incarnation_id]

    def versions(self, relation_id: int) -> frozenset[int]:
        """Return the identifiers of the versions that ``masked`` covers."""
        return frozenset() if self.open else frozenset(self._facts(relation_id).versions)

    def learn(self, relation_ids: Collection[int]) -> None:
        """Read in one query what is not known yet of these tables."""
        missing = [] if self.open else [r for r in relation_ids if r not in self._known]
        if missing:
            self._read(missing)

    def _facts(
        self, relation_id: int, *, version: int | None = None, version_id: int | None = None
    ) -> _TableVisibility:
        facts = self._known.get(relation_id)
        if (
            facts is None
            or (version is not None and version not in facts.numbers)
            or (version_id is not None and version_id not in facts.versions)
        ):
            self._read([relation_id])
            facts = self._known[relation_id]
            # A version that was deleted is not queried again.
            facts.numbers |= {version} if version is not None else set()
            facts.versions |= {version_id} if version_id is not None else set()
        return facts

    def _read(self, relation_ids: Collection[int]) -> None:
        # A table that is no longer in the record is hidden: its rights cannot be checked.
        by_relation = {relation_id: _TableVisibility(hidden=True) for relation_id in relation_ids}
        rows = self._read_rows(_FACTS, [list(relation_ids)])
        masked = self._masked_of_shapes([row for row in rows if row[4] is not None])
        for relation_id, source_id, schema, table, version_id, number, *_ in rows:
            facts = by_relation[relation_id]
            facts.source_id = source_id
            facts.hidden = self.hides_table(source_id, schema, table)
            if version_id is None:
                continue
            facts.versions.add(version_id)
            facts.numbers.add(number)
            facts.masked |= masked[version_id]
        self._known |= by_relation

    def _masked_of_shapes(self, rows: Sequence[tuple[Any, ...]]) -> dict[int, frozenset[str]]:
        """Return the masked columns of each shape in these rows of ``_FACTS``.

        A result is remembered until one of the facts that it derives from changes.
        """
        rules = self._now.rules
        if not rules:
            return {row[4]: frozenset() for row in rows}
        basis = {row[4]: (rules, *row[1:4], *row[6:]) for row in rows}
        remembered = {pk: entry for pk in basis if (entry := _remembered.get(pk))}
        masked_by_shape = {
            pk: masked
            for pk, (entry_basis, masked) in remembered.items()
            if entry_basis == basis[pk]
        }
        new = [pk for pk in basis if pk not in masked_by_shape]
        params = [new, mask_rules.any_column(rules)]
        columns: dict[int, list[dict[str, Any]]] = {}
        for pk, name, kind in self._read_rows(_MASKABLE, params) if new else ():
            columns.setdefault(pk, []).append({"name": name, "type": kind})
        for pk in new:
            _, source_id, schema, table, own_schema, own_table, _ = basis[pk]
            # A version keeps its table's name at that time: what is masked under either name stays
            # masked.
            masked = frozenset[str]()
            for name in {(schema, table), (own_schema, own_table)}:
                masked |= self.masked_of_table(source_id, *name, columns.get(pk, ()))
            masked_by_shape[pk] = masked
            _remembered[pk] = basis[pk], masked_by_shape[pk]
        if len(_remembered) > _MOST_REMEMBERED:
            _remembered.clear()
        return masked_by_shape

    def _first_id(self, sql: str, identifier: int) -> int | None:
        rows = self._read_rows(sql, [identifier])
        return int(rows[0][0]) if rows else None

    def forget(self) -> None:
        """Read rules and rights again at the next question, since this process changed them."""
        self._until = 0.0

    def _refresh(self) -> None:
        if time.monotonic() < self._until:
            return
        grants = self._grants()
        # Facts about tables are dropped, too: tables get new columns and new names.
        self._known, self._messages = {}, {}
        self._now = grants
        self._open = grants.sources is None and grants.patterns is None and not grants.rules
        self._until = time.monotonic() + FRESH_SECONDS
