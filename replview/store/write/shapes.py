"""Store tables and the versions of their shape, as Relation messages describe them.

A version is a new shape, not a new message: the server repeats Relation messages.
"""

import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import psycopg
from psycopg.types.json import Jsonb

from decoder.scalars import lsn_text
from replview.store.read.relation_shapes import made_anew

#: Column → what identifies it in the source's catalog: ``relation_version.made``.
Made = Mapping[str, Sequence[int]]

_BACK_IN_FORCE = """
    UPDATE relation_version SET intervals = intervals || %s
    WHERE id = %s
      AND id IS DISTINCT FROM (SELECT current_version_id FROM relation WHERE id = %s)
"""

# The version in force comes first: it is meant where the catalog does not decide.
_VERSIONS_ALIKE = """
    SELECT v.id, v.number, v.made, v.columns
    FROM relation_version v JOIN relation r ON r.id = v.relation_id
    WHERE v.relation_id = %s AND split_part(v.digest, '-', 1) = %s
    ORDER BY v.id = r.current_version_id DESC NULLS LAST, v.number DESC
"""
_SET_CURRENT = """
    UPDATE relation r SET
        current_version_id = CASE WHEN %s THEN %s ELSE coalesce(r.current_version_id, %s) END
    FROM relation was WHERE r.id = %s AND was.id = r.id RETURNING was.current_version_id
"""
_RESTORE_FORMER = """
    UPDATE relation r SET current_version_id = v.id, schema = coalesce(v.schema, r.schema),
                          "table" = coalesce(v."table", r."table")
    FROM (VALUES (%s::bigint)) AS former (id) LEFT JOIN relation_version v USING (id)
    WHERE r.id = %s AND r.current_version_id = %s
"""
_IN_FORCE = "SELECT current_version_id FROM relation WHERE id = %s"
_MARK_ROLLED_BACK = """
    UPDATE relation_version SET intervals = (
        SELECT jsonb_agg(CASE WHEN each->'at' = to_jsonb(%s::text)
                              THEN each || '{"rolled_back": true}' ELSE each END ORDER BY place)
        FROM jsonb_array_elements(intervals) WITH ORDINALITY AS one (each, place))
    WHERE id = %s AND intervals <> '[]'
"""
_HAND_OVER = """
    UPDATE relation_version SET intervals = (
        SELECT jsonb_agg(CASE WHEN each->'at' = to_jsonb(%s::text)
                              THEN each - 'top' || %s ELSE each END ORDER BY place)
        FROM jsonb_array_elements(intervals) WITH ORDINALITY AS one (each, place))
    WHERE id = %s AND intervals <> '[]'
"""
_WITHDRAW = """
    UPDATE relation_version SET intervals = (
        SELECT coalesce(jsonb_agg(each ORDER BY place), '[]')
        FROM jsonb_array_elements(intervals) WITH ORDINALITY AS one (each, place)
        WHERE each->'at' <> to_jsonb(%s::text))
    WHERE id = %s
"""
_STORE_MADE = "UPDATE relation_version SET made = %s WHERE id = %s AND made IS DISTINCT FROM %s"


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """A column of a table's shape."""

    name: str
    type_oid: int
    typmod: int
    #: The type as ``format_type()`` writes it; None where no catalog or Type message has it.
    type_name: str | None
    is_key: bool
    #: The base of a user-defined type, in the form of ``catalog.columns.type_bases``.
    base: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """A table as one Relation message describes it."""

    oid: int
    schema: str
    table: str
    replica_identity: str
    columns: Sequence[ColumnShape]
    #: Columns that identify a row: the replica identity's, or under FULL the primary key.
    key_columns: Sequence[str]

    def digest(self) -> str:
        """Return the SHA-256 of everything that makes a version.

        Types' names and base types do not count: they may become known later.
        """
        columns = [[c.name, c.type_oid, c.typmod, c.is_key] for c in self.columns]
        names = [self.schema, self.table, self.replica_identity]
        document = [*names, columns, list(self.key_columns)]
        return hashlib.sha256(orjson.dumps(document)).hexdigest()

    def columns_json(self) -> list[dict[str, Any]]:
        """Return the columns in the form of ``relation_version.columns``."""
        return [
            {"name": c.name, "type_oid": c.type_oid, "type": c.type_name, "typmod": c.typmod,
             "key": c.is_key, **({"base": c.base} if c.base else {})}
            for c in self.columns
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredShape:
    """The result of storing a shape: its relation and version."""

    relation_id: int
    version_id: int
    #: 1 for the table's first shape.
    number: int
    #: True when the version is new.
    is_new: bool
    #: The version that was in force before; the same one where it stays in force.
    former: int | None
    #: Time at which the shape was received, in ISO 8601.
    at: str


def store_shape(
    connection: psycopg.Connection[Any],
    slot_id: int,
    system_identifier: str,
    shape: Shape,
    *,
    lsn: int,
    xid: int | None,
    top: int | None = None,
    in_force: bool = True,
    made: Made | None = None,
    at: str | None = None,
) -> StoredShape:
    """Find or create relation and version of ``shape``, under the slot row's lock.

    The version is in force from ``at`` (None: now), unless ``in_force`` is False: read apart from
    the stream. ``made`` says how the catalog's columns were made: a shape with a column made anew
    is another version, though it looks the same. ``top`` is the transaction of ``xid``.
    """
    relation_id = _relation(connection, slot_id, system_identifier, shape)
    digest = shape.digest()
    versions = connection.execute(_VERSIONS_ALIKE, [relation_id, digest]).fetchall()
    stored = next((row for row in versions if not made_anew(row[2] or {}, made or {})), None)
    interval = _interval(lsn, xid, top, at := at or now_text())
    if stored is not None:
        if in_force:
            # Record this only if another version was in force in between.
            connection.execute(_BACK_IN_FORCE, [interval, stored[0], relation_id])
        _learn_types(connection, stored[0], stored[3], shape)
        version, number = stored[:2]
    else:
        digest += f"-{len(versions)}" if versions else ""
        of_shape = relation_id, digest, shape, interval
        version, number = _new_version(connection, *of_shape, lsn=lsn, xid=xid)
    if made:
        note_made(connection, version, made)
    earlier = connection.execute(_SET_CURRENT, [in_force, version, version, relation_id]).fetchone()
    former = earlier[0] if earlier else None
    return StoredShape(relation_id, version, number, is_new=stored is None, former=former, at=at)


def _interval(lsn: int, xid: int | None, top: int | None, at: str) -> Jsonb:
    """Return the start of a version's time in force, as a list to append to its intervals."""
    since = {"lsn": lsn_text(lsn or None), "xid": xid, "at": at}
    return Jsonb([since if top in (None, xid) else {**since, "top": top}])


def now_text() -> str:
    """Return the current time in the form of ``StoredShape.at``."""
    return dt.datetime.now(tz=dt.UTC).isoformat()


def take_shape_back(connection: psycopg.Connection[Any], stored: StoredShape) -> None:
    """Put the former version in force again, after a rollback of what brought this one."""
    connection.execute(_RESTORE_FORMER, [stored.former, stored.relation_id, stored.version_id])
    if stored.former != stored.version_id:
        connection.execute(_MARK_ROLLED_BACK, [stored.at, stored.version_id])


def hand_shape_over(
    connection: psycopg.Connection[Any], stored: StoredShape, *, top: int, xid: int | None
) -> None:
    """Say that another transaction put a version in force: the one that sent it was rolled back."""
    sender = {"xid": xid} if xid in (None, top) else {"xid": xid, "top": top}
    connection.execute(_HAND_OVER, [stored.at, Jsonb(sender), stored.version_id])


def withdraw_shape(connection: psycopg.Connection[Any], stored: StoredShape) -> int | None:
    """Take a version out of force, to query the source again for the one that came.

    Returns the version that came since and is in force; None: there is none.
    """
    row = connection.execute(_IN_FORCE, [stored.relation_id]).fetchone()
    connection.execute(_RESTORE_FORMER, [stored.former, stored.relation_id, stored.version_id])
    connection.execute(_WITHDRAW, [stored.at, stored.version_id])
    current = row[0] if row else None
    return None if current == stored.version_id else current


def leave_in_force(
    connection: psycopg.Connection[Any], stored: StoredShape, version_id: int
) -> None:
    """Put a version in force that came after the one just stored."""
    connection.execute(_RESTORE_FORMER, [version_id, stored.relation_id, stored.version_id])


def note_made(connection: psycopg.Connection[Any], version_id: int, made: Made) -> Made:
    """Store how a version's columns were made, as known by now."""
    connection.execute(_STORE_MADE, [Jsonb(made), version_id, Jsonb(made)])
    return made


def _learn_types(
    connection: psycopg.Connection[Any], version: int, stored: list[dict[str, Any]], shape: Shape
) -> None:
    """Update the types of a version's columns from the catalog: an enum may have more labels."""
    sent = ({k: v for k, v in c.items() if v is not None} for c in shape.columns_json())
    columns = [{**old, **new} for old, new in zip(stored, sent, strict=True)]
    if columns != stored:
        sql = "UPDATE relation_version SET columns = %s WHERE id = %s"
        connection.execute(sql, [Jsonb(columns), version])


def _relation(
    connection: psycopg.Connection[Any], slot_id: int, system_identifier: str, shape: Shape
) -> int:
    """Return the relation's id, after storing it with its current names."""
    row = connection.execute(
        """
        INSERT INTO relation (slot_id, system_identifier, oid, schema, "table")
        VALUES (%s, %s, %s, %s, %s)
        ON CONFLICT (slot_id, system_identifier, oid)
        DO UPDATE SET schema = excluded.schema, "table" = excluded."table"
        RETURNING id
        """,
        [slot_id, system_identifier, shape.oid, shape.schema, shape.table],
    ).fetchone()
    assert row is not None
    return int(row[0])


def _new_version(
    connection: psycopg.Connection[Any],
    relation_id: int,
    digest: str,
    shape: Shape,
    interval: Jsonb,
    *,
    lsn: int,
    xid: int | None,
) -> tuple[int, int]:
    """Insert a version; return its id and its number."""
    row = connection.execute(
        """
        INSERT INTO relation_version (relation_id, number, digest, schema, "table",
            replica_identity, columns, key_columns, first_lsn, first_xid, first_seen_at, intervals)
        VALUES (%s,
            (SELECT coalesce(max(number), 0) + 1 FROM relation_version WHERE relation_id = %s),
            %s, %s, %s, %s, %s, %s, %s, %s, now(), %s)
        RETURNING id, number
        """,
        [
            relation_id, relation_id, digest, shape.schema, shape.table, shape.replica_identity,
            Jsonb(shape.columns_json()), Jsonb(list(shape.key_columns)),
            lsn_text(lsn or None), xid, interval,
        ],
    ).fetchone()  # fmt: skip
    assert row is not None
    return int(row[0]), int(row[1])
