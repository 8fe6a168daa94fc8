"""Mask the values of columns that the store's rules hide.

The server's SELECT removes a masked value already, and the row looks as if the value had been
masked before it was stored.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from psycopg import sql

from replview.parquet.reading.connecting import StoreConnection, StoreProblem
from replview.parquet.slices import Masked, Slice
from replview.store.read.session import ReadSession

_SHAPES = """
    SELECT r.id, array_agg(DISTINCT n.name)
    FROM slot_incarnation i JOIN relation r ON r.slot_id = i.slot_id
    JOIN relation_version v ON v.relation_id = r.id,
    LATERAL (VALUES (r.schema || '.' || r."table"), (v.schema || '.' || v."table")) AS n (name)
    WHERE i.id = %s GROUP BY r.id ORDER BY r.id
"""


def with_rules(connection: StoreConnection, part: Slice) -> Slice:
    """Add the masks of the store's present rules to the slice's own masks."""
    masked = {name: set(columns) for name, columns in part.masked}
    for name, columns in rules_of(connection, part.incarnation_id).items():
        masked.setdefault(name, set()).update(columns)
    return replace(part, masked=in_order(masked))


def in_order(masked: Mapping[str, Iterable[str]]) -> Masked:
    """Sort tables and columns, so that equal masks make equal slices."""
    return tuple((name, tuple(sorted(masked[name]))) for name in sorted(masked) if masked[name])


def rules_of(connection: StoreConnection, incarnation: int) -> dict[str, set[str]]:
    """Return table → masked columns, under every name that the table has had."""
    visibility = ReadSession(connection).visibility
    if visibility.open:
        return {}
    named: dict[int, list[str]] = dict(connection.execute(_SHAPES, [incarnation]).fetchall())
    visibility.learn(named)
    found: dict[str, set[str]] = {}
    for relation, names in named.items():
        for name in names if visibility.masked(relation) else ():
            found.setdefault(name, set()).update(visibility.masked(relation))
    return found


def masked_image(image: sql.Composable, columns: Sequence[str]) -> sql.Composable:
    """Return the SQL of a row's JSON in which these columns, where present, are marks, NULL too."""
    if not columns:
        return image
    return sql.SQL(
        "({image} || (SELECT coalesce(jsonb_object_agg(k, {mark}::jsonb), '{{}}')"
        " FROM unnest({columns}::text[]) AS k WHERE {image} ? k))"
    ).format(image=image, mark='{"$masked": true}', columns=list(columns))


def masked_images(
    connection: StoreConnection, part: Slice, image: sql.Composable
) -> sql.Composable:
    """Mask an image in changes of all tables, each by the masks of its own table."""
    if not part.masked:
        return image
    branches = [
        sql.SQL("WHEN {} THEN {}").format(relation, masked_image(image, columns))
        for relation, columns in masked_relations(connection, part).items()
    ]
    if not branches:
        return image
    return sql.SQL("CASE c.relation_id {} ELSE {} END").format(sql.SQL(" ").join(branches), image)


def masked_relations(connection: StoreConnection, part: Slice) -> dict[int, list[str]]:
    """Return relation → its masked columns, for relations that have some."""
    shapes = connection.execute(_SHAPES, [part.incarnation_id]) if part.masked else ()
    found = {relation: {c for n in names for c in part.masked_of(n)} for relation, names in shapes}
    return {relation: sorted(columns) for relation, columns in found.items() if columns}


def asked_masks(text: str) -> Masked | None:
    """Parse the option ``masked``: None for ``rules`` or nothing, else the masks that it names.

    Raises ``StoreProblem``.
    """
    words = text.strip()
    if words.lower() in ("", "rules"):
        return None
    if words.lower() == "none":
        return ()
    try:
        given = json.loads(words)
        return in_order({str(name): [str(c) for c in columns] for name, columns in given.items()})
    except (ValueError, AttributeError, TypeError):
        raise StoreProblem(
            "masked is rules, none, or tables with their columns",
            'write it like {"public.customers": ["mail"]}',
        ) from None
