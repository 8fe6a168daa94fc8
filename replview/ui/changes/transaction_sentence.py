"""The sentence a transaction's page opens with: who, what, and what that means now."""

from collections.abc import Sequence
from dataclasses import dataclass

from replview.store.read.rows import TransactionRow
from replview.text.formats import plural
from replview.ui.changes.cells import Block

#: Why a transaction in this state, or a change of it, is not taken back.
NOT_UNDONE = {
    "receiving": "it is still being received",
    "streaming": "it is still open on the source",
    "prepared": "it is prepared and has not happened yet; ROLLBACK PREPARED takes it back",
    "aborted": "it was aborted",
    "rolled back": "it was rolled back",
    "message": "a message changed no row",
    "snapshot": "a baseline changed nothing",
    "skipped": "its changes were not stored",
    "unknown": "nobody can tell whether it was committed",
}
_GRADES = {
    "claimed": "Named by a message in this transaction. Any role could have sent it.",
    "stamped": "Stamped by our trigger on the source, with the session’s user, application "
    "and client address as the server knew them.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """The heading in its parts."""

    #: Whose state the sentence names; empty where there is no actor to name.
    names_actor: bool
    #: ``changed 4 rows in 3 tables``.
    did: str
    #: What it means: how it ended, what was rolled back, whether it can be undone.
    rest: str


def sentence_of(row: TransactionRow, blocks: Sequence[Block], *, whole: bool) -> Sentence:
    """``whole``: the blocks are all its changes that count."""
    if row.state == "snapshot":
        position = f" as of {row.commit_lsn}" if row.commit_lsn else ""
        return Sentence(
            names_actor=False,
            did=f"A baseline read {plural(row.inserts, 'row')}{position}",
            rest="Nothing changed by it: it tells what the rows were before their first change.",
        )
    if row.state == "message":
        return Sentence(
            names_actor=True,
            did="sent a message outside any transaction",
            rest="It counts at once, whatever became of the transaction that sent it.",
        )
    return Sentence(names_actor=True, did=_did(row), rest=_rest(row, blocks, whole))


def _did(row: TransactionRow) -> str:
    rows = row.inserts + row.updates + row.deletes
    counted = max(rows - row.aborted_changes, 0)
    tables = plural(len(row.relations), "table")
    verb = {
        "receiving": "is changing",
        "streaming": "is changing",
        "aborted": "had changed",
        "rolled back": "had changed",
    }.get(row.state, "changed")
    if row.state == "skipped":
        return "was left out of the record"
    if counted:
        return f"{verb} {plural(counted, 'row')} in {tables}"
    if row.truncates:
        return f"truncated {tables}"
    if row.messages and not rows:
        return f"sent {plural(row.messages, 'message')}"
    return f"{verb} no published row that counts" if rows else f"{verb} no published row"


def _rest(row: TransactionRow, blocks: Sequence[Block], whole: bool) -> str:
    by_state = {
        "receiving": "It is being received: nothing of it counts yet.",
        "streaming": "Still open on the source: nothing of it counts yet.",
        "prepared": "Prepared, neither committed nor rolled back: nothing of it counts yet.",
        "aborted": "It was aborted: nothing of it counts.",
        "rolled back": "ROLLBACK PREPARED ended it: nothing of it counts.",
        "skipped": "Its changes were not stored, by somebody’s decision; it keeps its place.",
        "unknown": "It was prepared in an incarnation of the slot that ended before it did: nobody "
        "can tell how it ended.",
    }
    if row.state in by_state:
        return by_state[row.state]
    back = (
        f"{plural(row.aborted_changes, 'change')} rolled back to a savepoint"
        if row.aborted_changes
        else "Nothing rolled back"
    )
    undo = _undo(blocks) if whole else ""
    return f"{back}; {undo}." if undo else f"{back}."


def _undo(blocks: Sequence[Block]) -> str:
    rows = [block for block in blocks if block.op in "IUDT" and not block.aborted]
    able = sum(not block.undo_problem for block in rows)
    if not rows:
        return ""
    if able == len(rows):
        return f"undo is possible for {'all ' if able > 1 else ''}{plural(able, 'row')}"
    if not able:
        return "undo is not possible: each change says why"
    return f"undo is possible for {able:,} of {plural(len(rows), 'change')}"


def grade_words(row: TransactionRow) -> str:
    """How well it is known who did it."""
    if not row.actor:
        return "Nothing in this transaction names who did it."
    return _GRADES.get(row.actor_grade or "", "How this name is known was not recorded.")
