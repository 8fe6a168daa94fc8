"""Counting changes on their transaction's row."""

from typing import Final

from replview.receiver.storing.table_plans import TablePlan
from replview.store.write.transaction_rows import TransactionRow

#: More subtransactions than this in one transaction are no longer counted apart.
COUNTED_SUBTRANSACTIONS: Final = 100_000
#: Where an operation stands in a row's counts of one relation.
#: A snapshot's rows are counted where inserts are.
_OPERATION: Final = {"I": 0, "U": 1, "D": 2, "T": 3, "S": 0}


def count(row: TransactionRow, plan: TablePlan | None, op: str, number: int) -> None:
    """Add ``number`` changes of one kind to a transaction's counters."""
    if number == 0:
        return
    if plan is None:
        row.messages += number
        return
    kind = _OPERATION[op]
    counts = row.relations.get(plan.relation_id)
    if counts is None:
        counts = row.relations[plan.relation_id] = [0, 0, 0, 0]
    counts[kind] += number
    if kind == 0:
        row.inserts += number
    elif kind == 1:
        row.updates += number
    elif kind == 2:
        row.deletes += number
    else:
        row.truncates += number


def count_subtransaction(row: TransactionRow, subxid: int) -> None:
    """Count one change of a subtransaction, to say what its abort takes away."""
    counts = row.subxid_changes
    if subxid in counts or len(counts) < COUNTED_SUBTRANSACTIONS:
        counts[subxid] = counts.get(subxid, 0) + 1
