"""The rows of transactions, as far as more than one process must know how they are made."""

import datetime as dt
from collections.abc import Sequence

from replview.store.read.days import transaction_id
from replview.store.write.copy_rows import CopiedTransaction
from tests.benchmarks.pages.scale import CHANGE_WAL_BYTES, Plan

#: The approximate size of a row's pgoutput message.
MESSAGE_BYTES = 145
POSTGRES_SECONDS = 946_684_800


def identifier(number: int, time_us: int) -> int:
    """A transaction's identifier: in the hour in which it was first seen."""
    return transaction_id(number, at=time_us / 1e6 + POSTGRES_SECONDS)


def shared_row(
    plan: Plan,
    n: int,
    first_id: int,
    incarnations: Sequence[int],
    counts: Sequence[dict[int, list[int]]],
) -> CopiedTransaction:
    """The row of a transaction that all processes wrote, by what each counted."""
    time_us = plan.time_us(n)
    large = n == plan.large
    row = CopiedTransaction(
        id=identifier(first_id + n, time_us),
        incarnation_id=incarnations[int(n >= plan.second_incarnation)],
        received_at_us=time_us,
        xid=1000 + n if large else None,
        state=plan.state(n),
        streamed=large,
        commit_seq=plan.commit_seq(n),
        first_lsn=plan.lsn(n) + CHANGE_WAL_BYTES,
        commit_lsn=plan.commit_lsn(n),
        end_lsn=plan.commit_lsn(n) + 48,
        commit_time_us=time_us,
        actor="alice" if large else None,
        actor_grade="claimed" if large else None,
    )
    for of_process in counts:
        for relation, found in of_process.items():
            known = row.relations.setdefault(relation, [0, 0, 0, 0])
            row.relations[relation] = [a + b for a, b in zip(known, found, strict=True)]
    sum_up(row, plan.sizes[n])
    return row


def sum_up(row: CopiedTransaction, size: int) -> None:
    for inserts, updates, deletes, truncates in row.relations.values():
        row.inserts += inserts
        row.updates += updates
        row.deletes += deletes
        row.truncates += truncates
    row.size_bytes = size * MESSAGE_BYTES


def moment(time_us: int) -> dt.datetime:
    """Microseconds since 2000 as a datetime."""
    return dt.datetime.fromtimestamp(time_us / 1e6 + POSTGRES_SECONDS, tz=dt.UTC)
