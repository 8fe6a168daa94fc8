"""Undo what a lost worker left of a draft on its source."""

import psycopg

from replview.acts.slot_sweeping import sweep
from replview.catalog.connections import connect
from replview.catalog.problems import SourceProblem
from replview.jobs import drafts, intentions
from replview.store.dsn import UNUSABLE
from replview.store.models import SourceDraft


def take_back_lost() -> None:
    """Undo and fail the drafts of workers that have sent no heartbeat for a while."""
    while (draft := drafts.rows.claim(drafts.rows.lost)) is not None:
        if draft.slot is not None and draft.kind == SourceDraft.Kind.RECORD:
            # The slot is stored, so only the draft's end is missing.
            draft.undo = []
            drafts.end(draft, "DONE")
            continue
        swept = bool(intentions.of_draft(draft))
        failed = _sweep(draft) if swept else _run_undo_statements(draft)
        remedy = "Try again"
        if failed:
            retrying = "replview keeps trying to undo it. Or run"
            remedy = f"{retrying if swept else 'Run'} on the source yourself: {'; '.join(failed)}"
        cause = "the worker ended before it had finished"
        drafts.end(draft, "FAILED", problem_code="lost", problem_cause=cause, problem_remedy=remedy)


def _sweep(draft: SourceDraft) -> list[str]:
    """Undo the statements of the draft's intentions; return the undo statements that failed.

    The statement that was running when the worker ended is undone too.
    """
    failed = [
        statement
        for intention in intentions.of_draft(draft)
        for statement in sweep(intention, maker_gone=True)
    ]
    draft.undo = failed
    return failed


def _run_undo_statements(draft: SourceDraft) -> list[str]:
    """Run the draft's undo statements, last one first; return those that failed."""
    failed = []
    for statement in reversed(draft.undo):
        try:
            with connect(drafts.conninfo_of(draft), read_only=False) as connection:
                # psycopg composed and quoted the statement when the step was planned.
                connection.execute(statement.encode())
        except (psycopg.Error, SourceProblem, *UNUSABLE):
            failed.append(statement)
    draft.undo = failed
    return failed
