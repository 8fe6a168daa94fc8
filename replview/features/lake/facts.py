"""The facts of a lake, as the command, the API and the page show them."""

from typing import Any

from replview.access.withheld import Withheld, withheld
from replview.health.lake_lag import lag_of
from replview.store.models import Lake, LakeRelation, LakeRun
from replview.store.read.changes.records import utc_text
from replview.text.formats import age_words, plural

KINDS = ("changes", "current")
_HIDDEN_FAILED = ("a table failed that you have no right to see", "Ask an admin to see to it")


def lake_facts(lake: Lake) -> dict[str, Any]:
    """Return a lake, its last run, and its tables as far as the visitor may see them."""
    rights = withheld(lake.slot, name=lake.slot_name)
    run = next(iter(shown_runs(lake, rights, 1)), None)
    relations = [one for one in lake.relations.all() if not rights.hides(one.name)]
    return {
        "id": lake.pk,
        "name": lake.name,
        "format": lake.format,
        "root": lake.root,
        "slot": lake.slot_name,
        "every_minutes": lake.every_minutes,
        "run": None if run is None else run_facts(run),
        "tables": [relation_facts(relation, run) for relation in relations],
    }


def shown_runs(lake: Lake, rights: Withheld, number: int) -> list[LakeRun]:
    """Return the last runs, without the names and problems of tables that the visitor may not see.

    The rows must not be saved.
    """
    runs = list(lake.runs.all()[:number])
    for run in runs:
        if run.reading and rights.hides(run.reading):
            run.reading = ""
            if run.problem_cause:
                run.problem_cause, run.problem_remedy = _HIDDEN_FAILED
    return runs


def run_facts(run: LakeRun) -> dict[str, Any]:
    """Return a run: what was asked for, how it ended, and the table at which it is or failed."""
    return {
        "id": run.pk,
        "action": run.action,
        "state": run.state,
        "table": run.reading,
        "progress": progress_of(run),
        "requested_by": run.requested_by,
        "requested_at": utc_text(run.requested_at),
        "finished_at": utc_text(run.finished_at),
        "problem": run.problem_cause,
        "remedy": run.problem_remedy,
    }


def progress_of(run: LakeRun) -> dict[str, int | None] | None:
    """Return how far a running run has come; None where nothing is known, or it does not run.

    ``table`` is the number of the table that it reads, of ``tables``; ``changes`` were read ``of``
    those to read, None where they are not counted.
    """
    result = run.result or {}
    if run.state != LakeRun.State.RUNNING or not run.reading or "tables" not in result:
        return None
    return {name: result.get(name) for name in ("table", "tables", "changes", "of")}


def progress_text(progress: dict[str, int | None]) -> str:
    """Return ``table 2 of 3, 1,204 of 9,000 changes``."""
    text = f"table {progress['table']} of {progress['tables']}"
    if progress["of"] is None:
        return text
    return f"{text}, {progress['changes']:,} of {progress['of']:,} changes"


def state_of(relation: LakeRelation, run: LakeRun | None) -> str:
    """Return ``running``, ``failed`` or ``idle``; ``run`` is the lake's last one."""
    if run is not None and run.waits and run.reading == relation.name:
        return "running"
    return "failed" if relation.problem_cause else "idle"


def relation_facts(relation: LakeRelation, run: LakeRun | None) -> dict[str, Any]:
    """Return a table of a lake; an amount that nothing has reported is None."""
    lag = lag_of(relation)
    sizes = relation.sizes or {}
    return {
        "table": relation.name,
        "state": state_of(relation, run),
        "reached": relation.reached,
        "behind_changes": None if lag is None else lag.changes,
        "behind_more": lag is not None and lag.more,
        "behind_seconds": None if lag is None else lag.seconds,
        **{kind: sizes.get(kind) for kind in KINDS},
        "no_current": relation.no_current,
        "batches": relation.batches,
        "gaps": relation.gaps,
        "reported_at": utc_text(relation.reported_at),
        "problem": relation.problem_cause,
        "remedy": relation.problem_remedy,
    }


def behind_text(table: dict[str, Any]) -> str:
    """Return how far a table is behind, such as ``1,204 changes, 4 min``."""
    changes, seconds = table["behind_changes"], table["behind_seconds"]
    if changes is None or (table["behind_more"] and not changes):
        return "unknown"
    if not changes:
        return "up to date" if table["reached"] else "nothing stored yet"
    text = f"{'at least ' if table['behind_more'] else ''}{plural(changes, 'change')}"
    return text if seconds is None else f"{text}, {age_words(seconds)}"
