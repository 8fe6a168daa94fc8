"""What a receiver writes into its slot's log together with what it stores: plain sentences."""

from dataclasses import dataclass, field

from replview.store.write.transaction_rows import TransactionRow


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the slot's log; never a value of the source."""

    kind: str
    message: str
    lsn: int | None = None
    detail: dict[str, object] = field(default_factory=dict)


def left_out(row: TransactionRow, lsn: int | None) -> Note:
    """A transaction (or a message outside any) was left out, because somebody decided so."""
    what = "A message" if row.xid is None else f"Transaction {row.xid}"
    by = (row.context or {}).get("$skipped", {}).get("by") or "somebody"
    return Note(
        "skipped",
        f"{what} was left out of the record, as {by} decided.",
        lsn,
        {"quarantine": row.left_out, "transaction": row.id},
    )


def resent(transactions: int, lsn: int) -> Note:
    """The server began before our checkpoint, as it may after it was restarted."""
    many = "transaction" if transactions == 1 else "transactions"
    return Note(
        "resent",
        f"The server sent {transactions:,} {many} again that the record has already: not stored "
        "twice.",
        lsn,
        {"transactions": transactions},
    )


def wrapped(lsn: int | None) -> Note:
    """The source used up its 32-bit transaction ids and began anew."""
    return Note(
        "wraparound",
        "The source's transaction ids (32 bits) began anew: an xid alone names no transaction "
        "across this point.",
        lsn,
    )
