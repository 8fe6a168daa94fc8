"""Choose the changes of a segment that a question may need."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replview.segments.layout import IMAGES
from replview.segments.text_search import may_contain

#: Columns, and a test of them that returns a mask; null is no match.
Condition = tuple[tuple[str, ...], Callable[[pa.Table], Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Conditions that all must hold for a change; None stands for every change."""

    #: Places in history.
    commit_seqs: range | None = None
    transaction_ids: Collection[int] | None = None
    relation_ids: Collection[int] | None = None
    #: Hashes of the row's key before or after the change.
    key_hashes: Collection[int] | None = None
    #: A text in a value, whatever its case. Changes without it may be selected, too.
    text: str = ""

    def compared(self) -> Iterator[tuple[str, Collection[int]]]:
        """Yield the columns of numbers with statistics, each with the values to select."""
        if self.commit_seqs is not None:
            yield "commit_seq", self.commit_seqs
        if self.transaction_ids is not None:
            yield "transaction_id", self.transaction_ids
        if self.relation_ids is not None:
            yield "relation_id", self.relation_ids

    def conditions(self) -> Iterator[Condition]:
        """Yield the conditions, those on small columns first."""
        for column, values in self.compared():
            yield (column,), partial(_has_one_of, values, [column])
        if self.key_hashes is not None:
            columns = ("key_hash", "old_key_hash")
            yield columns, partial(_has_one_of, self.key_hashes, columns)
        if self.text:
            yield IMAGES, partial(_has_text, self.text)


def reaches(values: Collection[int], low: int, high: int) -> bool:
    """Return whether one of the values is from ``low`` to ``high``."""
    if isinstance(values, range):
        return values.start <= high and low < values.stop
    return any(low <= value <= high for value in values)


def _has_one_of(values: Collection[int], columns: Collection[str], changes: pa.Table) -> Any:
    if isinstance(values, range):
        masks = [_is_within(changes[column], values) for column in columns]
    else:
        value_set = pa.array(values, pa.int64())
        masks = [pc.is_in(changes[column], value_set=value_set) for column in columns]
    return reduce(pc.or_, masks)


def _is_within(column: pa.ChunkedArray, values: range) -> Any:
    return pc.and_(pc.greater_equal(column, values.start), pc.less(column, values.stop))


def _has_text(text: str, changes: pa.Table) -> Any:
    return reduce(pc.or_, [may_contain(changes[image], text) for image in IMAGES])
