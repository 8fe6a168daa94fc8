"""A slice's narrowing in SQL: conditions on ``transaction t``, those of a page's filter."""

import re
from collections.abc import Mapping

import orjson
from psycopg import sql

from replview.parquet.slices import Slice
from replview.store.read.seen import TextLimits
from replview.store.read.transactions.conditions import limited_conditions
from replview.store.read.transactions.transaction_filter import UNKNOWN_ACTOR, TransactionFilter

_IN_TABLES = """
    AND (c.relation_id IS NULL OR c.relation_id IN (
        SELECT r.id FROM relation r WHERE r.schema || '.' || r."table" = ANY(%(searched)s::text[])))
"""
_NOT_MASKED = """
    AND NOT coalesce(jsonb_exists(%(masked)s::jsonb -> (
        SELECT r.schema || '.' || r."table" FROM relation r WHERE r.id = c.relation_id), v.key),
        false)
"""


def narrowing_conditions(part: Slice) -> sql.Composed:
    """True of a transaction that passes."""
    asked = part.narrowed
    wanted = TransactionFilter(
        states=asked.states,
        actor=UNKNOWN_ACTOR if asked.no_actor else "",
        origin=asked.origin,
        text=asked.text,
        id=asked.id,
        min_changes=asked.min_changes,
        min_bytes=asked.min_bytes,
        prepared_min=asked.prepared_min,
    )
    found = limited_conditions(wanted, _limits(part))
    return _bound(found.row_sql, found.values)


def _limits(part: Slice) -> TextLimits:
    """No masked value is found, and nothing of a table that may not be looked into."""
    asked = part.narrowed
    in_tables = "" if asked.searched is None else _IN_TABLES
    in_messages = "" if asked.in_messages else " AND c.op::text <> 'M'"
    masked = orjson.dumps({name: list(columns) for name, columns in part.masked}).decode()
    return TextLimits(
        of_change=in_tables + in_messages,
        of_value=_NOT_MASKED if part.masked else "",
        parameters={"searched": list(asked.searched or ()), "masked": masked},
    )


def _bound(text: str, values: Mapping[str, object]) -> sql.Composed:
    """The values in the place of their names, to stand in a larger statement."""
    pieces = re.split(r"%\((\w+)\)s", text)
    return sql.Composed(
        sql.Literal(values[piece]) if number % 2 else sql.SQL(piece)
        for number, piece in enumerate(pieces)
    )
