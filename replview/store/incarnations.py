"""The lives of a slot: LSNs compare, and commit_seq counts, only within one."""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from decoder.scalars import LSN
from replview.store.lease import Fenced, Lease


@dataclass(frozen=True, slots=True)
class SlotRow:
    """What a receiver must know of its slot."""

    id: int
    source_id: int
    name: str
    publications: list[str]
    options: dict[str, Any]
    owned: bool
    temporary: bool
    column_rules: dict[str, dict[str, str]]
    checkpoint_lsn: LSN | None
    incarnation_id: int | None
    number: int | None
    system_identifier: str | None
    timeline: int | None
    commit_seq: int


@dataclass(frozen=True, slots=True)
class Incarnation:
    """The life a session records into, and where it starts."""

    id: int
    number: int
    commit_seq: int
    checkpoint_lsn: LSN


def read_slot(connection: psycopg.Connection[Any], slot_id: int) -> SlotRow:
    """The slot's row with its current life."""
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(
            """
            SELECT s.id, s.source_id, s.name, s.publications, s.options, s.owned, s.temporary,
                   s.column_rules, s.checkpoint_lsn::text, s.incarnation_id, i.number,
                   i.system_identifier, i.timeline, coalesce(i.commit_seq, 0) AS commit_seq
            FROM slot s LEFT JOIN slot_incarnation i ON i.id = s.incarnation_id
            WHERE s.id = %s
            """,
            [slot_id],
        ).fetchone()
    if row is None:
        raise LookupError(f"slot {slot_id} is not in the store")
    lsn = row["checkpoint_lsn"]
    return SlotRow(**{**row, "checkpoint_lsn": None if lsn is None else LSN.parse(lsn)})


def resume(connection: psycopg.Connection[Any], lease: Lease, slot: SlotRow) -> Incarnation:
    """Go on with the current life: hide what a former session left half received."""
    assert slot.incarnation_id is not None
    assert slot.number is not None
    with connection.transaction():
        _fence(connection, lease)
        connection.execute(
            "UPDATE transaction SET state = 'discarded' "
            "WHERE incarnation_id = %s AND state IN ('receiving', 'streaming')",
            [slot.incarnation_id],
        )
        # Read again under the lock: the last write of our former session, given up as hanging, may
        # have been committed since ``slot`` was read.
        row = connection.execute(
            "SELECT i.commit_seq, s.checkpoint_lsn::text FROM slot s "
            "JOIN slot_incarnation i ON i.id = s.incarnation_id WHERE s.id = %s",
            [slot.id],
        ).fetchone()
    assert row is not None
    checkpoint_lsn = LSN(0) if row[1] is None else LSN.parse(row[1])
    return Incarnation(slot.incarnation_id, slot.number, row[0], checkpoint_lsn)


def begin(
    connection: psycopg.Connection[Any],
    lease: Lease,
    slot: SlotRow,
    *,
    system_identifier: str,
    timeline: int,
    started_lsn: LSN,
    reason: str,
) -> Incarnation:
    """Begin a new life at ``started_lsn``; what the former one left open is hidden."""
    number = (slot.number or 0) + 1
    with connection.transaction():
        _fence(connection, lease)
        if slot.incarnation_id is not None:
            connection.execute(
                "UPDATE transaction SET state = 'discarded' "
                "WHERE incarnation_id = %s AND state IN ('receiving', 'streaming')",
                [slot.incarnation_id],
            )
        row = connection.execute(
            """
            INSERT INTO slot_incarnation (slot_id, number, system_identifier, timeline,
                started_lsn, started_at, reason, commit_seq)
            VALUES (%s, %s, %s, %s, %s, now(), %s, 0) RETURNING id
            """,
            [slot.id, number, system_identifier, timeline, str(started_lsn), reason],
        ).fetchone()
        assert row is not None
        connection.execute(
            "UPDATE slot SET incarnation_id = %s, checkpoint_lsn = %s, server_lsn = NULL "
            "WHERE id = %s",
            [row[0], str(started_lsn), slot.id],
        )
    return Incarnation(int(row[0]), number, 0, started_lsn)


def log_event(
    connection: psycopg.Connection[Any],
    slot_id: int,
    kind: str,
    message: str,
    *,
    incarnation_id: int | None = None,
    after_commit_seq: int = 0,
    lsn: int | None = None,
    detail: dict[str, Any] | None = None,
) -> None:
    """Add a line to the slot's log. ``message`` is one plain sentence without source values."""
    connection.execute(
        """
        INSERT INTO slot_event
            (slot_id, incarnation_id, at, kind, message, detail, lsn, after_commit_seq)
        VALUES (%s, %s, clock_timestamp(), %s, %s, %s, %s, %s)
        """,
        [
            slot_id,
            incarnation_id,
            kind,
            message,
            Jsonb(detail or {}),
            None if lsn is None else str(LSN(lsn)),
            after_commit_seq,
        ],
    )


def _fence(connection: psycopg.Connection[Any], lease: Lease) -> None:
    row = connection.execute(
        "UPDATE slot SET heartbeat_at = clock_timestamp() WHERE id = %s AND epoch = %s "
        "RETURNING id",
        [lease.slot_id, lease.epoch],
    ).fetchone()
    if row is None:
        raise Fenced(f"slot {lease.slot_id} was taken over by another receiver")
