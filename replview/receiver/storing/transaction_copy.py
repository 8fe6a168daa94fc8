"""The rows of ``transaction``: new ones by COPY, those that grew or ended by UPDATE."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import orjson
import psycopg

from decoder.scalars import LSN, datetime_from_us
from decoder.timestamps import now_us
from replview.receiver.storing.portions import Portion
from replview.store.write import copy_rows
from replview.store.write.copy_rows import TransactionRow

_UPDATE_TRANSACTION = """
UPDATE transaction SET state = %(state)s, gid = %(gid)s, commit_seq = %(commit_seq)s,
    first_lsn = %(first_lsn)s, prepare_lsn = %(prepare_lsn)s, commit_lsn = %(commit_lsn)s,
    end_lsn = %(end_lsn)s, commit_time = %(commit_time)s, prepared_at = %(prepared_at)s,
    ended_at = %(ended_at)s, origin = %(origin)s, actor = %(actor)s,
    actor_grade = %(actor_grade)s, context = %(context)s, inserts = %(inserts)s,
    updates = %(updates)s, deletes = %(deletes)s, truncates = %(truncates)s,
    messages = %(messages)s, size_bytes = %(size_bytes)s, relations = %(relations)s,
    aborted_changes = %(aborted_changes)s, stored_at = clock_timestamp()
WHERE id = %(id)s
"""


def store_rows(connection: psycopg.Connection[Any], portion: Portion) -> None:
    """Store the portion's transactions as they are now; runs inside the store transaction."""
    insert_rows(connection, [row for row in portion.rows.values() if not row.stored])
    update_rows(connection, [row for row in portion.rows.values() if row.stored])


def insert_rows(connection: psycopg.Connection[Any], rows: Sequence[TransactionRow]) -> None:
    """Store transactions that the store does not have yet."""
    if rows:
        stored_at_us = now_us()
        with connection.cursor().copy(copy_rows.COPY_TRANSACTIONS) as copy:
            packed = [row.pack(stored_at_us) for row in rows]
            copy.write(copy_rows.COPY_HEADER + b"".join(packed) + copy_rows.COPY_TRAILER)


def update_rows(connection: psycopg.Connection[Any], rows: Sequence[TransactionRow]) -> None:
    """Store what has become of transactions that the store has."""
    if rows:
        connection.cursor().executemany(_UPDATE_TRANSACTION, [_parameters(row) for row in rows])


def store_transitions(connection: psycopg.Connection[Any], portion: Portion) -> None:
    """Store which states the portion's streamed and two-phase transactions went into."""
    if portion.transitions:
        connection.cursor().executemany(
            "INSERT INTO transition (transaction_id, state, lsn, source_time, recorded_at) "
            "VALUES (%s, %s, %s, %s, clock_timestamp())",
            [
                (told.transaction_id, told.state, lsn_text(told.lsn), datetime_of(told.time_us))
                for told in portion.transitions
            ],
        )


def lsn_text(value: int | None) -> str | None:
    """A position as SQL reads it."""
    return None if value is None else str(LSN(value))


def datetime_of(time_us: int | None) -> dt.datetime | None:
    """A time as psycopg takes it; None where no datetime can hold it."""
    return None if time_us is None else datetime_from_us(time_us)


def _parameters(row: TransactionRow) -> dict[str, object]:
    """The parameters of ``_UPDATE_TRANSACTION``."""
    return {
        "id": row.id,
        "state": row.state,
        "gid": row.gid,
        "commit_seq": row.commit_seq,
        "first_lsn": lsn_text(row.first_lsn),
        "prepare_lsn": lsn_text(row.prepare_lsn),
        "commit_lsn": lsn_text(row.commit_lsn),
        "end_lsn": lsn_text(row.end_lsn),
        "commit_time": datetime_of(row.commit_time_us),
        "prepared_at": datetime_of(row.prepared_at_us),
        "ended_at": datetime_of(row.ended_at_us),
        "origin": row.origin,
        "actor": row.actor,
        "actor_grade": row.actor_grade,
        "context": None if row.context is None else orjson.dumps(row.context).decode(),
        "inserts": row.inserts,
        "updates": row.updates,
        "deletes": row.deletes,
        "truncates": row.truncates,
        "messages": row.messages,
        "size_bytes": row.size_bytes,
        "relations": row.relations_json().decode(),
        "aborted_changes": row.aborted_changes,
    }
