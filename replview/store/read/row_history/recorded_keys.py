"""Find the recorded keys that equal a key: a numeric ``1.1`` equals ``1.10``.

The record has a key as the server printed it, and finds it by a hash of that text. Where a type
prints equal values differently, the key is searched under every text that the server may print, if
these can be listed, otherwise among all keys of the table.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import psycopg

from replview.store.read.printed import MOST_ZEROS, NotOfTypeError, equal_texts, prints_alike
from replview.store.read.relation_shapes import VersionShape
from replview.store.read.session import ReadSession
from replview.store.read.value_sql import equality

#: The most texts of one key that are searched by their hashes.
_MOST_TEXTS = 2000

_RECORDED = """
    SELECT h.hash FROM unnest(%(hashes)s::bigint[]) AS h (hash)
    WHERE EXISTS (SELECT FROM change c
                  WHERE c.relation_id = ANY(%(relations)s::bigint[]) AND c.key_hash = h.hash)
       OR EXISTS (SELECT FROM change c
                  WHERE c.relation_id = ANY(%(relations)s::bigint[]) AND c.old_key_hash = h.hash)
"""

RecordedKey = dict[str, str | None]


@dataclass(slots=True)
class _KeyedShapes:
    """The shapes of a table whose keys have the same columns of the same types."""

    #: The key's columns, as in the last of these shapes.
    columns: list[dict[str, Any]]
    version_ids: list[int]


def equal_keys(
    session: ReadSession,
    versions: Iterable[VersionShape],
    relation_ids: Sequence[int],
    key: Mapping[str, str | None],
) -> list[RecordedKey]:
    """Return the keys in the record that may equal this key; some may not be recorded.

    ``key``: as the server prints it.
    """
    shapes = _keyed_by(versions, set(key))
    if all(prints_alike(column) for one in shapes for column in one.columns):
        return [dict(key)]
    found = []
    for one in shapes:
        try:
            texts = _texts(session, one.columns, key)
        except NotOfTypeError:
            # The column had another type in these shapes.
            continue
        if None in texts.values():
            found += _among_all(session, relation_ids, one, texts, key)
        else:
            lists = [each or () for each in texts.values()]
            found += [dict(zip(texts, each, strict=True)) for each in product(*lists)]
    return found or [dict(key)]


def recorded(session: ReadSession, relation_ids: Sequence[int], hashes: Iterable[int]) -> set[int]:
    """Return those of the hashes under which changes of the tables are recorded."""
    wanted = {"hashes": list(hashes), "relations": list(relation_ids)}
    return {row[0] for row in session.prepared_rows(_RECORDED, wanted)}


def _keyed_by(versions: Iterable[VersionShape], names: set[str]) -> list[_KeyedShapes]:
    """Return the shapes with these columns as key, grouped by the columns' types."""
    found: dict[tuple[object, ...], _KeyedShapes] = {}
    for version in sorted(versions, key=lambda each: (each.relation_id, each.number)):
        if set(version.key_columns) != names:
            continue
        columns = [column for column in version.columns if column["name"] in names]
        kinds = (
            (c["name"], c.get("type_oid"), c.get("typmod"), c.get("type"), "base" in c)
            for c in columns
        )
        one = found.setdefault(tuple(kinds), _KeyedShapes(columns, []))
        one.columns = columns
        one.version_ids.append(version.id)
    return list(found.values())


def _texts(
    session: ReadSession, columns: Sequence[dict[str, Any]], key: Mapping[str, str | None]
) -> dict[str, list[str | None] | None]:
    """Return the texts of each column's value; None: there are too many."""
    varied = sum(not prints_alike(column) for column in columns)
    zeros = min(MOST_ZEROS, int(_MOST_TEXTS ** (1 / max(varied, 1))) - 1)
    found: dict[str, list[str | None] | None] = {}
    for column in columns:
        name, value = column["name"], key[column["name"]]
        texts = [None] if value is None else equal_texts(session, column, value, zeros)
        found[name] = None if texts is None else list(texts)
    return found


def _among_all(
    session: ReadSession,
    relation_ids: Sequence[int],
    shapes: _KeyedShapes,
    texts: Mapping[str, list[str | None] | None],
    key: Mapping[str, str | None],
) -> list[RecordedKey]:
    """Compare every key that changes of these shapes have, as its columns' types do."""
    wanted = {"relations": list(relation_ids), "versions": shapes.version_ids}

    def rows(*, careful: bool) -> list[tuple[Any, ...]]:
        values: dict[str, Any] = dict(wanted)
        sides = [
            _side(session, shapes.columns, texts, key, values, order, careful=careful)
            for order in (("c.new", "c.old"), ("c.old", "c.new"))
        ]
        return session.rows(f"{sides[0]} UNION {sides[1]} AND c.old_key_hash IS NOT NULL", values)

    try:
        with session.savepoint():
            found = rows(careful=False)
    except (psycopg.DataError, session.data_error):
        found = rows(careful=True)
    return [dict(zip(texts, row, strict=True)) for row in found]


def _side(
    session: ReadSession,
    columns: Sequence[dict[str, Any]],
    texts: Mapping[str, list[str | None] | None],
    key: Mapping[str, str | None],
    values: dict[str, Any],
    order: tuple[str, str],
    *,
    careful: bool,
) -> str:
    """Return the statement for the keys after or before a change: ``order`` of its images."""
    shown, conditions = [], []
    for number, column in enumerate(columns):
        values[f"name{number}"] = name = column["name"]
        value = f"coalesce({order[0]}->%(name{number})s, {order[1]}->%(name{number})s)"
        text, listed, wanted = f"({value} #>> '{{}}')", texts[name], key[name]
        shown.append(text)
        if wanted is None:
            conditions.append(f"jsonb_typeof({value}) = 'null'")
            continue
        if listed is None:
            same = equality(session, column, text, wanted, values, careful=careful)
        else:
            values[f"texts{number}"] = listed
            same = f"{text} = ANY(%(texts{number})s::text[])"
        conditions.append(f"(CASE jsonb_typeof({value}) WHEN 'string' THEN {same} END)")
    return f"""
        SELECT {", ".join(shown)} FROM change c
        WHERE c.relation_id = ANY(%(relations)s::bigint[])
          AND c.version_id = ANY(%(versions)s::bigint[]) AND c.key_hash IS NOT NULL
          AND {" AND ".join(conditions)}"""  # noqa: S608 (names and values are parameters)
