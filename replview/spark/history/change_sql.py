"""SQL expressions about a change of a table: its place, its row, the digests of its values."""

from collections.abc import Iterable, Sequence

from replview.parquet.slice_schemas import SliceColumn
from replview.spark.history.datasets import Dataset
from replview.spark.history.replay_piece import PLACE
from replview.spark.quoting import shared_literal

#: The place of a row, which is unique and ordered.
SQL_PLACE = f"({', '.join(PLACE)})"


def not_before(names: Sequence[str], values: Sequence[int]) -> str:
    """Return the condition for a place at or after another one, column by column."""
    (name, *more), (value, *others) = names, values
    if not more:
        return f"{name} >= {value}"
    return f"({name} > {value} OR {name} = {value} AND {not_before(more, others)})"


def value_of(dataset: Dataset, column: SliceColumn) -> str:
    """Return the name of a column's values: in a change, or after a replay the last known ones."""
    return f"value{dataset.columns.index(column)}"


def _raw(column: SliceColumn) -> str:
    """Return the text of a value that its column cannot hold; null if it can."""
    return f"try_element_at(_pg_raw, {shared_literal(column.source_name)})"


def hash_of(parts: Iterable[str]) -> str:
    """Return a hash of several values."""
    return f"xxhash64(({', '.join(parts)}))"


def digest_of(dataset: Dataset, column: SliceColumn) -> str:
    """Return a hash of a value, including one that its column cannot hold."""
    value, text = value_of(dataset, column), _raw(column)
    # Look up the text only where there is no value, since it is slow.
    return (
        f"CASE WHEN {value} IS NOT NULL THEN xxhash64({value})"
        f" WHEN {text} IS NOT NULL THEN {hash_of((text, '1'))} ELSE 0 END"
    )


def row_key(dataset: Dataset) -> str:
    """Return a hash of the row's key, by the table version of the change."""
    known = {column.source_name: column for column in dataset.columns}
    cases = (
        f"WHEN {_is_version(dataset, numbers)}"
        f" THEN {hash_of(digest_of(dataset, known[name]) for name in key)}"
        for key, numbers in dataset.keys.items()
        if key
    )
    return f"CASE {' '.join(cases)} END"


def nameless(dataset: Dataset) -> str:
    """Return the test for a change without key; an insert into a table without key is not one."""
    known = {column.source_name: column for column in dataset.columns}
    tests = []
    for key, numbers in dataset.keys.items():
        unknown = [_is_unknown(dataset, known[name]) for name in key]
        own = unknown or ["_change_type <> 'insert'"]
        tests.append(" AND ".join([_is_version(dataset, numbers), *own]))
    return f"({' OR '.join(tests)})"


def _is_unknown(dataset: Dataset, column: SliceColumn) -> str:
    """Return the test for a value that is null; a mark (masked, erased) is no value."""
    mark = shared_literal('{"$%')
    is_no_value = f"coalesce({_raw(column)} LIKE {mark}, true)"
    return f"CASE WHEN {value_of(dataset, column)} IS NULL THEN {is_no_value} ELSE false END"


def _is_version(dataset: Dataset, numbers: Sequence[int]) -> str:
    return f"{version_of(dataset)} IN ({', '.join(map(str, numbers))})"


def version_of(dataset: Dataset) -> str:
    """Return the number of a change's table version; the newest if it is unknown."""
    known = ", ".join(str(version.number) for version in dataset.relation.versions)
    newest = dataset.version(None).number
    return f"CASE WHEN _relation_version IN ({known}) THEN _relation_version ELSE {newest} END"
