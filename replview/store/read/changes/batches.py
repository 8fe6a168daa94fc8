"""Read the wanted changes of a few transactions at once, in reads of even size.

A condition on values is a predicate of the query. Where a change alone cannot answer it, the same
SQL runs again with the row's before image (``store.read.row_history.before_images``).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from replview.store.read.changes.wanted import WantedChanges, searchable
from replview.store.read.changes.written import StoreLines
from replview.store.read.relation_shapes import VersionShape, shapes_by_id
from replview.store.read.row_history.before_images import Shared, before_columns
from replview.store.read.row_history.replay import BeforeImage
from replview.store.read.rows import CHANGES_ACTOR, QUICKLY_NOT_ABORTED, ChangeRow, TransactionRow
from replview.store.read.seen import seen_change
from replview.store.read.session import ReadSession, array_text
from replview.store.read.transactions.filter_values import OPERATIONS, UNKNOWN_ACTOR
from replview.store.read.value_filter import WhereProblem
from replview.store.read.value_sql import Predicate, predicate_for

#: Bytes of pgoutput that one read spans at most, which bounds its memory.
_READ_BYTES = 16 * 1024 * 1024
#: Changes whose before images are read at once.
_UNDECIDED_AT_ONCE = 2000
#: Number of undecided changes of one read beyond which the next ones are smaller.
_MANY_UNDECIDED = 1000
#: Undecided changes whose before images are read first where few changes are wanted; more follow
#: while none is found.
UNSURE_AT_FIRST = 60

#: Text of a masked value in a row's JSONB; within a text value the quotes would be escaped.
_MASKED = '{"$masked": true}'
#: Columns of ``change c`` from which ``ShapeCache.rows`` makes changes.
CHANGE_COLUMNS = """
    c.transaction_id, c.seq, c.lsn, c.subxid, c.op::text, c.old_kind::text, c.old, c.new,
    c.relation_id, c.key_hash, c.old_key_hash, c.version_id
"""
_READ = f"SELECT {CHANGE_COLUMNS}, {{sure}} {{rest}}"
_FROM = f"""
    FROM change c
    WHERE c.transaction_id = ANY(%(ids)s::bigint[]) {{conditions}} AND {QUICKLY_NOT_ABORTED}
"""

_PREDICATE_AGAIN = """
    SELECT c.number, ({predicate}) FROM (
        SELECT * FROM jsonb_to_recordset(%(asked)s::jsonb)
            AS w (number int, op text, version_id bigint, old jsonb, new jsonb)
    ) c
"""


@dataclass(slots=True)
class Batching:
    """The number of changes that a read spans; it begins at ``first`` and grows up to ``most``."""

    first: int = 2000
    most: int = 2000
    _now: int = 0

    def groups(self, rows: Sequence[TransactionRow]) -> Iterator[list[TransactionRow]]:
        """Yield neighbouring transactions together while they fit a read; a larger one alone."""
        group: list[TransactionRow] = []
        changes = size = 0
        for row in rows:
            full = changes + row.changes > self._size or size + row.size_bytes > _READ_BYTES
            if group and full:
                yield group
                self._grow()
                group, changes, size = [], 0, 0
            group.append(row)
            changes += row.changes
            size += row.size_bytes
        if group:
            yield group
            self._grow()

    def is_large(self, row: TransactionRow) -> bool:
        """Return whether the transaction does not fit a read."""
        return row.changes > self._size or row.size_bytes > _READ_BYTES

    def window(self, row: TransactionRow) -> int:
        """Return how many changes of a large transaction to read."""
        self._grow()
        change_bytes = max(row.size_bytes // max(row.changes, 1), 1)
        return max(1, min(self._size, _READ_BYTES // change_bytes))

    def slow_down(self) -> None:
        """Make the next reads smaller."""
        self._now = max(self._size // 4, 200)

    def stay(self) -> None:
        """Let reads grow no further."""
        self.most = min(self.most, self._size)

    @property
    def _size(self) -> int:
        return self._now or self.first

    def _grow(self) -> None:
        self._now = min(self._size * 2, self.most)


@dataclass(slots=True)
class ShapeCache:
    """Shapes seen so far, shared by the rows that have them."""

    _session: ReadSession
    #: The fields of a change that come from its shape, by the shape's identifier.
    _known: dict[int | None, list[Any]] = field(default_factory=dict)
    by_id: dict[int, VersionShape] = field(default_factory=dict)

    def add(self, shapes: Iterable[VersionShape]) -> None:
        """Remember these shapes."""
        for shape in shapes:
            self.by_id[shape.id] = shape
            names = shape.schema, shape.table, shape.number, shape.replica_identity
            self._known[shape.id] = [*names, shape.columns, shape.key_columns]

    def learn(self, ids: set[int]) -> None:
        """Read the shapes with these identifiers that are not known yet."""
        if missing := ids - self._known.keys():
            self.add(shapes_by_id(self._session, missing))

    def rows(self, read: Iterable[Sequence[Any]]) -> list[ChangeRow]:
        """Return rows of ``CHANGE_COLUMNS`` as changes with their shapes."""
        shapes = self._known
        empty: list[Any] = [None, None, None, None, [], []]
        changes = [
            ChangeRow(
                *[*row[:6], _json(row[6]), _json(row[7]), *row[8:11], *shapes.get(row[11], empty)]
            )
            for row in read
        ]
        visibility = self._session.visibility
        return (
            changes if visibility.open else [seen_change(change, visibility) for change in changes]
        )


def _json(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


@dataclass(frozen=True, slots=True)
class Enough:
    """The number of changes that a reader wants, the first in the order of ``place``."""

    number: int
    place: Callable[[ChangeRow], tuple[int, int]]


class ChangeReader:
    """A reader of the wanted changes of given transactions."""

    def __init__(
        self,
        session: ReadSession,
        wanted: WantedChanges,
        relation_ids: list[int] | None,
        batching: Batching,
    ) -> None:
        """Build the predicate. Raises ``WhereProblem`` where the conditions fit no table."""
        self._session = session
        self._wanted = wanted
        self._batching = batching
        self._shapes = ShapeCache(session)
        self._relation_ids = relation_ids
        #: If set, the store writes lines where it can: one returned change then stands for many.
        self.lines: StoreLines | None = None
        #: State that the before images of several reads share, and the images read (None: unknown).
        self.shared = Shared()
        self.before: dict[tuple[int, int], BeforeImage | None] = {}
        self._at_once = UNSURE_AT_FIRST
        self._searched_shapes: list[VersionShape] = []
        self._predicate: Predicate | None = None
        #: True if a transaction that is read has changes of several actors.
        self.of_several = False
        if wanted.where:
            self._searched_shapes = searchable(session, wanted)
            if len(self._searched_shapes) < len(wanted.shapes(session)):
                self._relation_ids = sorted({shape.relation_id for shape in self._searched_shapes})
            self._shapes.add(self._searched_shapes)
            self._predicate = predicate_for(session, wanted.where, self._searched_shapes)

    def read(
        self,
        ids: list[int],
        first_seq: int | None = None,
        last_seq: int | None = None,
        *,
        enough: Enough | None = None,
    ) -> tuple[list[ChangeRow], list[ChangeRow]]:
        """Return the changes that match, and those for which this is unknown, in no order.

        With ``enough``, only the first of them. Raises ``WhereProblem`` where a column or table of
        the condition was masked or hidden meanwhile.
        """
        if self._predicate is None:
            return self._read(ids, first_seq, last_seq, enough)
        if len(searchable(self._session, self._wanted)) < len(self._searched_shapes):
            raise WhereProblem("rights were changed meanwhile: search again")
        try:
            # If the caller has a transaction open, a savepoint keeps it usable after an error.
            with self._session.savepoint():
                return self._read(ids, first_seq, last_seq, enough)
        except self._session.data_error:
            self._predicate = predicate_for(
                self._session, self._wanted.where, self._searched_shapes, careful=True
            )
            return self._read(ids, first_seq, last_seq, enough)

    def _read(
        self, ids: list[int], first_seq: int | None, last_seq: int | None, enough: Enough | None
    ) -> tuple[list[ChangeRow], list[ChangeRow]]:
        from_sql, sure_sql, params = self._sql(first_seq, last_seq)
        matching: list[ChangeRow] = []
        if self.lines and not self._predicate and not self.of_several:
            matching, ids = self.lines.written(self._session, ids, from_sql, params)
        params["ids"] = array_text(ids)
        rows = self._session.rows(_READ.format(sure=sure_sql, rest=from_sql), params) if ids else []
        versions = {row[11] for row in rows if row[11] is not None}
        self._shapes.learn(versions)
        if self.lines:
            masked = {
                row[11] for row in rows if any(_MASKED in (image or "") for image in row[6:8])
            }
            self.lines.learn(map(self._shapes.by_id.__getitem__, versions), masked)
        matching += self._shapes.rows(row for row in rows if row[12])
        undecided_rows = [row for row in rows if not row[12]]
        undecided = list(
            zip(self._shapes.rows(undecided_rows), (row[11] for row in undecided_rows), strict=True)
        )
        if enough is not None:
            return self._first_of(matching, undecided, enough)
        if len(undecided) > _MANY_UNDECIDED:
            self._batching.slow_down()
        unknown: list[ChangeRow] = []
        for start in range(0, len(undecided), _UNDECIDED_AT_ONCE):
            also_matching, still_unknown = self._decide_by_before_images(
                undecided[start : start + _UNDECIDED_AT_ONCE]
            )
            matching += also_matching
            unknown += still_unknown
        return matching, unknown

    def _first_of(
        self, certain: list[ChangeRow], undecided: list[tuple[ChangeRow, int]], enough: Enough
    ) -> tuple[list[ChangeRow], list[ChangeRow]]:
        """Return the first wanted changes in scanning order, reading few before images."""
        place = enough.place
        matching = sorted(certain, key=place)
        undecided = sorted(undecided, key=lambda pair: place(pair[0]))
        unknown: list[ChangeRow] = []
        while undecided:
            page, next_place = matching[: enough.number], place(undecided[0][0])
            if len(page) == enough.number and place(page[-1]) < next_place:
                # All undecided changes that remain come after these.
                return page, unknown
            also_matching, still_unknown = self._decide_by_before_images(undecided[: self._at_once])
            undecided = undecided[self._at_once :]
            self._at_once = min(self._at_once * 2, _UNDECIDED_AT_ONCE)
            matching = sorted([*matching, *also_matching], key=place)
            unknown += still_unknown
        return matching, unknown

    def _sql(self, first_seq: int | None, last_seq: int | None) -> tuple[str, str, dict[str, Any]]:
        """Return the SQL from FROM on, an expression for "surely wanted", and the parameters."""
        conditions, sure_sql, params = [], "TRUE", dict[str, Any]()
        if first_seq is not None:
            conditions.append("AND c.seq BETWEEN %(first_seq)s AND %(last_seq)s")
            params |= {"first_seq": first_seq, "last_seq": last_seq}
        if self._relation_ids is not None:
            conditions.append("AND c.relation_id = ANY(%(relations)s)")
            params["relations"] = self._relation_ids
        if self.of_several and (actor := self._wanted.filter.actor):
            conditions.append(f"AND {CHANGES_ACTOR} = %(of_actor)s")
            params["of_actor"] = "" if actor == UNKNOWN_ACTOR else actor
        if self._wanted.ops != OPERATIONS:
            conditions.append("AND c.op::text = ANY(%(ops)s)")
            params["ops"] = list(self._wanted.ops)
        if self._predicate is not None:
            conditions.append(f"AND {self._predicate.sql} IS NOT FALSE")
            sure_sql = f"{self._predicate.sql} IS TRUE"
            params |= self._predicate.parameters
        return _FROM.format(conditions=" ".join(conditions)), sure_sql, params

    def _decide_by_before_images(
        self, undecided: list[tuple[ChangeRow, int]]
    ) -> tuple[list[ChangeRow], list[ChangeRow]]:
        """Return the changes that match by their before images, and those still unknown."""
        assert self._predicate is not None
        columns = self._wanted.where.columns
        changes = [change for change, _ in undecided]
        before, partial = before_columns(self._session, changes, columns, self.shared)
        rows = []
        for number, (change, version) in enumerate(undecided):
            image = before.get((change.transaction_id, change.seq))
            old, new = _filled(change, image.image if image else {}, columns)
            row = {"number": number, "op": change.op, "version_id": version, "old": old}
            rows.append(row if new is None else row | {"new": new})
        answers = self._session.rows(
            _PREDICATE_AGAIN.format(predicate=self._predicate.sql),
            {**self._predicate.parameters, "asked": orjson.dumps(rows).decode()},
        )
        matching = [undecided[number][0] for number, answer in answers if answer]
        for change in matching:
            place = (change.transaction_id, change.seq)
            if place not in partial:
                self.before[place] = before.get(place)
        return matching, [undecided[number][0] for number, answer in answers if answer is None]


def _filled(
    change: ChangeRow, image: dict[str, Any], columns: list[str]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the columns of the condition, before and after, completed by the before image."""
    before = {**image, **(change.old or {})}
    old = {name: before[name] for name in columns if name in before}
    if change.new is None:
        return old, None
    # A column that an update did not send is unchanged.
    after = {**before, **change.new} if change.op == "U" else change.new
    return old, {name: after[name] for name in columns if name in after}
