"""The SQL that ends an open transaction, to be copied: replview never runs it."""

from dataclasses import dataclass

from replview.store.models import Transaction


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement and what it does to the transaction."""

    word: str
    sql: str


def literal(text: str) -> str:
    """A string constant that means the same whatever ``standard_conforming_strings`` says."""
    quoted = text.replace("'", "''")
    if "\\" in text:
        return "E'" + quoted.replace("\\", "\\\\") + "'"
    return f"'{quoted}'"


def ends_of_prepared(gid: str, changes: str) -> tuple[Statement, Statement]:
    """Both ends of a prepared transaction: opposites, so nobody chooses but the reader."""
    return (
        Statement(f"Keep its {changes}", f"COMMIT PREPARED {literal(gid)};"),
        Statement("Or discard them", f"ROLLBACK PREPARED {literal(gid)};"),
    )


def next_step_of_prepared(gid: str) -> str:
    """What is to be done about one that holds WAL, as the end of a sentence."""
    keep, discard = (each.sql.removesuffix(";") for each in ends_of_prepared(gid, "changes"))
    return f"end the prepared transaction that holds it: {keep} or {discard}"


def end_of_session(transaction: Transaction, pid: int) -> Statement:
    """Ends the session only while it still runs this very transaction: pids are used again."""
    which = f"pid = {pid:d} AND backend_xid = '{transaction.xid or 0:d}'::xid"
    return Statement(
        "End its session, which discards the transaction",
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity\nWHERE {which};",  # noqa: S608
    )
