"""Follow rows through the store and through files, under every key that they ever had."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.features.erasure.files import RootState, reach
from replview.features.erasure.rows import ErasedTable, key_in
from replview.store.models import Relation
from replview.store.read.row_history.keys import TableRows
from replview.store.read.row_history.trails import (
    Key,
    KeySpan,
    Touch,
    TrailPosition,
    key_of,
    spans_of,
    touch_of,
)

if TYPE_CHECKING:
    from replview.parquet.erasure.roots import ErasureRoot

#: A root with its state.
StatedRoot = tuple[RootState, "ErasureRoot"]


def requested_spans(table: TableRows, key: Mapping[str, str | None]) -> list[KeySpan]:
    """Return spans of a typed key, and of recorded keys that are equal by their columns' types."""
    equal = [each for _, each in table.recorded(reading_session(), key)]
    return [KeySpan(each) for each in dict.fromkeys(map(key_of, (key, *equal)))]


def follow_rows(
    table: ErasedTable, roots: Sequence[StatedRoot], known: Sequence[KeySpan]
) -> tuple[KeySpan, ...]:
    """Return the spans of a table's rows and all that follow, in the store and in files."""
    files = _FileTrails(table, roots)
    while True:
        files.read([span.key for span in known])
        spans = spans_of(known, lambda key: [*table.touches(key), *files.touches(key)])
        whole = [span.key for span in spans if span == KeySpan(span.key)]
        linked = {k for key in whole for k in table.linked(key) | files.linked(key)}
        more = [KeySpan(key) for key in linked if key not in whole]
        if not more:
            return spans
        known = [*spans, *more]


@dataclass(slots=True)
class _FileTrails:
    """The keys of one table's rows, as read from the files below some roots."""

    table: ErasedTable
    roots: Sequence[StatedRoot]
    _of: dict[Key, list[Touch]] = field(default_factory=dict)
    _linked: dict[Key, set[Key]] = field(default_factory=dict)

    def touches(self, key: Key) -> list[Touch]:
        """Return the changes that begin, end or move a row under the key."""
        self.read([key])
        return self._of[key]

    def linked(self, key: Key) -> set[Key]:
        """Return keys that the same row had in versions with another key."""
        self.read([key])
        return self._linked[key]

    def read(self, keys: Sequence[Key]) -> None:
        """Read all keys that were not read yet, in one pass over the files."""
        wanted = [key for key in dict.fromkeys(keys) if key not in self._of]
        if not wanted:
            return
        for key in wanted:
            self._of[key], self._linked[key] = [], set()
        pks = list(self.table.table.relation_ids)
        oids = list(Relation.objects.filter(pk__in=pks).values_list("oid", flat=True))
        for state, root in self.roots:
            reach(state, lambda root=root: self._read_root(root, oids, wanted))  # type: ignore[misc]

    def _read_root(self, root: "ErasureRoot", oids: Sequence[int], wanted: Sequence[Key]) -> None:
        for incarnation, change in root.changes_under(oids, wanted):
            before = key_in(change.key_columns, change.old, change.new)
            after = key_in(change.key_columns, change.new, change.old)
            lsn = int(LSN.parse(change.lsn))
            place = TrailPosition(incarnation, lsn, change.seq, change.commit_lsn or 0)
            is_whole = change.old_kind == "O"
            touch = touch_of(place, change.op, before, after, is_whole=is_whole)
            for key in wanted:
                if key in (before, after):
                    self._of[key].append(touch)
                elif _has(change.old, key) or _has(change.new, key):
                    self._linked[key] |= {each for each in (before, after) if each is not None}


def _has(image: Mapping[str, Any] | None, key: Key) -> bool:
    """Return whether a row has the key's values, even if its version has another key."""
    return image is not None and all(name in image and image[name] == text for name, text in key)
