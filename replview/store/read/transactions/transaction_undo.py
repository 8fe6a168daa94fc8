"""The SQL that takes a whole transaction back; refused as a whole where any change cannot be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replview.store.read.changes.as_sql import undo_sql
from replview.store.read.rows import ChangeRow
from replview.store.read.sql_text import comment

#: A larger one is not for a clipboard.
MOST_CHANGES = 1_000
#: Reasons told; more are counted.
_MOST_REASONS = 20


@dataclass(frozen=True, slots=True)
class TransactionUndo:
    """The statements in one transaction, or why there are none."""

    sql: str | None
    reasons: list[str] = field(default_factory=list)


def undo_transaction(
    changes: Sequence[ChangeRow], before: Mapping[tuple[int, int], Any], *, name: str = ""
) -> TransactionUndo:
    """Its last change first. Messages are passed over: they changed no row."""
    if len(changes) > MOST_CHANGES:
        return TransactionUndo(None, [f"it has more than {MOST_CHANGES:,} changes"])
    statements, reasons = [], []
    for change in reversed(changes):
        if change.op == "M":
            continue
        made = undo_sql(change, before.get((change.transaction_id, change.seq)))
        if made.sql is None:
            table = f"{change.schema}.{change.table}"
            reasons.append(f"change {change.seq}, {table}: {made.reason}")
        else:
            statements.append(made.sql)
    if reasons:
        reasons.reverse()
        more = len(reasons) - _MOST_REASONS
        told = reasons[:_MOST_REASONS] + ([f"and {more} more"] if more > 0 else [])
        return TransactionUndo(None, told)
    if not statements:
        return TransactionUndo(None, ["it changed no row"])
    head = comment(f"Takes transaction {name} back: {len(statements)} changes, the last one first.")
    head += comment(
        "Rows may have changed since: read before you run it. Triggers and foreign keys apply."
    )
    return TransactionUndo(f"{head}BEGIN;\n\n" + "\n\n".join(statements) + "\n\nCOMMIT;")
