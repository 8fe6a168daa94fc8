"""Baselines: a table's rows read once, asked for by a page or a command, done by one worker.

The states are ``requested`` → ``reading`` → ``done``, ``failed`` or ``cancelled``. Whoever claims a
row is alone with it: all it stores begins with an UPDATE of the row ``WHERE started_at = mine``,
and 0 rows means stop. What a lost worker left is discarded and the table read anew.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import Q

from replview.jobs.running import announce
from replview.store.models import Baseline, Slot
from replview.store.publication_looks import latest_look
from replview.store.write.access_record import Action, note

TASK = "replview.serve_baselines"
#: A worker that gave no sign of life for this long is gone.
LOST_SECONDS = 30.0
WAITING = [Baseline.State.REQUESTED, Baseline.State.READING]
#: Serialises claiming: one table of a source at a time.
_CLAIM_LOCK = 0x7265706C62617365

# A slot without a life has not been connected yet: its baselines wait.
_CLAIM = """
    UPDATE baseline SET state = 'reading', started_at = clock_timestamp(),
           heartbeat_at = clock_timestamp(), finished_at = NULL, lsn = NULL, "rows" = 0,
           transaction_id = NULL, estimated_rows = NULL, problem_code = '', problem_cause = '',
           problem_remedy = '', incarnation_id = chosen.incarnation_id
    FROM (SELECT b.id, s.incarnation_id FROM baseline b JOIN slot s ON s.id = b.slot_id
          WHERE b.state = 'requested' AND s.incarnation_id IS NOT NULL
            AND s.desired <> 'removing'
            AND NOT EXISTS (SELECT FROM baseline other JOIN slot o ON o.id = other.slot_id
                            WHERE other.state = 'reading' AND o.source_id = s.source_id)
          ORDER BY b.id LIMIT 1 FOR UPDATE OF b SKIP LOCKED) AS chosen
    WHERE baseline.id = chosen.id
    RETURNING baseline.id
"""
#: What a baseline that ends in any other way than done has stored is hidden and swept away.
_DISCARD = "UPDATE transaction SET state = 'discarded' WHERE id = ANY(%s) AND state = 'copying'"
_GIVE_BACK_LOST = """
    UPDATE baseline SET state = 'requested'
    WHERE state = 'reading' AND heartbeat_at < clock_timestamp() - make_interval(secs => %s)
    RETURNING transaction_id
"""
_END = """
    UPDATE baseline SET state = %(state)s, finished_at = clock_timestamp(),
           problem_code = %(code)s, problem_cause = %(cause)s, problem_remedy = %(remedy)s
    WHERE id = %(id)s AND state = ANY(%(from)s)
      AND (%(started_at)s::timestamptz IS NULL OR started_at = %(started_at)s)
    RETURNING transaction_id
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to read one table for one baseline, until somebody takes it away."""

    baseline_id: int
    #: Tells this worker from any other that had the baseline before or gets it after.
    started_at: dt.datetime
    slot_id: int
    incarnation_id: int
    schema: str
    table: str
    rows_per_second: int | None


def request(
    slot: Slot, schema: str, table: str, *, by: str, rows_per_second: int | None = None
) -> Baseline:
    """Ask for a table's rows; a worker begins at once, or when the slot is first connected.

    One that is asked for already and not done yet is that one, at the rate asked for last.
    """
    with transaction.atomic():
        # Two that ask at once are asked for once.
        Slot.objects.select_for_update(of=("self",), no_key=True).get(pk=slot.pk)
        waiting = Baseline.objects.filter(
            slot=slot, schema=schema, table=table, state=Baseline.State.REQUESTED
        ).first()
        if waiting is not None:
            Baseline.objects.filter(pk=waiting.pk).update(rows_per_second=rows_per_second)
            return waiting
        note(Action.CHANGED_SLOT, subject=f"{slot}: a baseline", source_id=slot.source_id,
             tables=[f"{schema}.{table}"])  # fmt: skip
        announce(TASK)
        return Baseline.objects.create(
            slot=slot,
            schema=schema,
            table=table,
            requested_by=by,
            rows_per_second=rows_per_second,
        )


def claim() -> Claim | None:
    """The oldest baseline that can be begun, now ours; None where there is none."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_CLAIM_LOCK])
        cursor.execute(_CLAIM)
        row = cursor.fetchone()
    return None if row is None else claim_of(Baseline.objects.get(pk=row[0]))


def claim_of(baseline: Baseline) -> Claim:
    """The claim of whoever has begun it last."""
    assert baseline.started_at is not None
    assert baseline.incarnation_id is not None
    return Claim(
        baseline.pk,
        baseline.started_at,
        baseline.slot_id,
        baseline.incarnation_id,
        baseline.schema,
        baseline.table,
        baseline.rows_per_second,
    )


def anything_waits() -> bool:
    """Whether some baseline is neither done nor given up: one look at a partial index."""
    return Baseline.objects.filter(state__in=WAITING).exists()


def give_back_lost() -> None:
    """Have the tables read anew whose worker is gone."""
    _ended(_GIVE_BACK_LOST, [LOST_SECONDS])


def give_back(claim: Claim) -> bool:
    """Our worker stops: another reads the table anew. False where it was taken away already."""
    return _end(
        claim.baseline_id, Baseline.State.REQUESTED, [Baseline.State.READING], claim.started_at
    )


def fail(claim: Claim, code: str, cause: str, remedy: str) -> bool:
    """Store why there is none; False where it was taken away already."""
    problem = {"code": code, "cause": cause, "remedy": remedy}
    return _end(
        claim.baseline_id,
        Baseline.State.FAILED,
        [Baseline.State.READING],
        claim.started_at,
        **problem,
    )


def cancel(baseline_id: int) -> bool:
    """Give it up, begun or not; False where it has ended."""
    return _end(baseline_id, Baseline.State.CANCELLED, WAITING, None)


def note_act(baseline: Baseline, act: str) -> None:
    """Somebody gave it up, or asked for it again: in the access record."""
    slot = baseline.slot
    note(Action.CHANGED_SLOT, subject=f"{slot}: a baseline, {act}", source_id=slot.source_id,
         tables=[f"{baseline.schema}.{baseline.table}"])  # fmt: skip


def cancel_all(slot: Slot) -> None:
    """Give up all of a slot that is to be removed: nothing of them is stored after this."""
    for identifier in Baseline.objects.filter(slot=slot, state__in=WAITING).values_list(
        "pk", flat=True
    ):
        cancel(identifier)


def retry(baseline_id: int) -> bool:
    """Ask for a failed or cancelled one again; False where it is neither."""
    ended = Q(state=Baseline.State.FAILED) | Q(state=Baseline.State.CANCELLED)
    again = Baseline.objects.filter(ended, pk=baseline_id)
    asked = again.update(
        state=Baseline.State.REQUESTED,
        rows=0,
        lsn=None,
        started_at=None,
        finished_at=None,
        problem_code="",
        problem_cause="",
        problem_remedy="",
    )
    announce(TASK)
    return asked == 1


def tables_of(slot: Slot) -> list[dict[str, Any]]:
    """The tables its publications published when last looked at, as ``PublicationLook`` tells
    them; empty where nobody has looked.
    """
    look = latest_look(slot)
    return [] if look is None else list(look.facts["tables"])


def tables_named(slot: Slot, schema: str, table: str) -> list[tuple[str, str]]:
    """The published tables a name stands for: itself, or a partitioned table's partitions."""
    known = tables_of(slot)
    names = [(t["schema"], t["table"]) for t in known]
    if (schema, table) in names:
        return [(schema, table)]
    parts: list[Mapping[str, Any]] = [t for t in known if t["root"] == f"{schema}.{table}"]
    return [(t["schema"], t["table"]) for t in parts]


def _end(
    baseline_id: int,
    state: str,
    former: list[Baseline.State],
    started_at: dt.datetime | None,
    **problem: str,
) -> bool:
    parameters = {
        "id": baseline_id,
        "state": str(state),
        "from": [str(one) for one in former],
        "started_at": started_at,
        "code": "",
        "cause": "",
        "remedy": "",
        **problem,
    }
    return _ended(_END, parameters) == 1


def _ended(sql: str, parameters: Any) -> int:
    """End baselines and discard what they stored; returns how many.

    Two statements: what a worker stored while the first waited for its row is seen by the second.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        stored = [row[0] for row in cursor.fetchall()]
        if any(stored):
            cursor.execute(_DISCARD, [[one for one in stored if one is not None]])
    return len(stored)
