"""The pages of lakes: each lake's tables, its state in a sentence, and programs that open them."""

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from replview.access.visibility import current_visibility
from replview.access.withheld import withheld
from replview.features.lake.facts import (
    KINDS,
    behind_text,
    lake_facts,
    progress_of,
    progress_text,
    shown_runs,
)
from replview.features.lake.new_page import add_command
from replview.features.lake.request import recorded_tables, refused_now
from replview.store.models import Lake, LakeRun, Slot
from replview.targets.policy import Refused
from replview.text.formats import age_words, plural, some_of
from replview.ui.sentence import Sentence, as_next, refusal, sentence

if TYPE_CHECKING:
    from replview.spark.reading_programs import Program

_RUNS_SHOWN = 8
#: Actions of a lake: their value, label and icon.
ACTIONS = (("run", "Run", "play"), ("maintain", "Maintain", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeView:
    """A lake as pages show it."""

    lake: Lake
    #: Its tables, as ``facts.relation_facts`` returns them, with some facts in words.
    tables: list[dict[str, Any]]
    #: Its last runs, the newest first.
    runs: list[LakeRun]
    sentence: Sentence

    @property
    def run(self) -> LakeRun | None:
        """Return the last run."""
        return next(iter(self.runs), None)

    @property
    def busy(self) -> bool:
        """Return whether a run has not ended."""
        return self.run is not None and self.run.waits

    @property
    def progress(self) -> str:
        """Return how far the run has come, in words; empty: unknown, or nothing runs."""
        progress = progress_of(self.run) if self.run else None
        return progress_text(progress) if progress else ""

    @property
    def width(self) -> int | None:
        """Return how much of the table's changes was read, in thousandths; None: unknown."""
        progress = progress_of(self.run) if self.run else None
        if progress is None or not progress["of"]:
            return None
        return round(1000 * (progress["changes"] or 0) / progress["of"])


@dataclass(frozen=True, slots=True, kw_only=True)
class LakesPage:
    """The list of all lakes."""

    lakes: list[LakeView]
    sentence: Sentence
    #: Problem of running anything now; None: there is none.
    refused: Refused | None
    #: A command for the empty page.
    example: str
    actions: tuple[tuple[str, str, str], ...] = ACTIONS

    @property
    def busy(self) -> bool:
        """Return whether a run of some lake has not ended."""
        return any(view.busy for view in self.lakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakePage:
    """One lake, with programs that open one of its tables."""

    view: LakeView
    refused: Refused | None
    #: The chosen table; None where the visitor may see none.
    table: dict[str, Any] | None
    kind: str
    programs: "list[Program]"
    kinds: tuple[str, ...] = KINDS
    actions: tuple[tuple[str, str, str], ...] = ACTIONS

    @property
    def has_log(self) -> bool:
        """Return whether the last run has a log that the visitor may read."""
        run = self.view.run
        return run is not None and bool(run.log_path) and current_visibility().open

    @property
    def figures(self) -> list[dict[str, Any]]:
        """Return the figures of the lake: how far behind, rows, bytes."""
        tables = self.view.tables
        worst = max(tables, key=lambda one: one["behind_changes"] or 0, default=None)
        figures = [{"label": "Behind", "number": worst and worst["behind"], "main": True}]
        for kind in KINDS:
            sizes = [table[kind] for table in tables if table[kind]]
            rows = sum(size["rows"] for size in sizes) if sizes else None
            figures.append({"label": f"Rows of {kind}", "number": None if rows is None
                            else f"{rows:,}"})  # fmt: skip
        if self.view.busy:
            return [*figures, {"label": "This run", "number": _took(self.view.run)}]
        runs = [run for run in self.view.runs if run.finished_at]
        figures.append({"label": "Last run", "number": _took(runs[0]) if runs else None,
                        "rest": f"{runs[0].action}, {runs[0].state}" if runs else ""})  # fmt: skip
        return figures


def read_lakes_page() -> LakesPage:
    """Return the list of the lakes that the visitor may see."""
    views = [_view(lake) for lake in Lake.objects.select_related("slot__source")]
    refused = refused_now()
    return LakesPage(
        lakes=views, refused=refused, sentence=_sentence(views, refused), example=_example()
    )


def read_lake_page(lake: Lake, table_name: str, kind: str) -> LakePage:
    """Return the page of one lake; an unknown table or kind is the first one."""
    view = _view(lake)
    named = [table for table in view.tables if table["table"] == table_name]
    table = next(iter(named or view.tables), None)
    kind = kind if kind in KINDS else KINDS[0]
    return LakePage(
        view=view, refused=refused_now(), table=table, kind=kind,
        programs=_programs(lake, table["table"], kind) if table else [],
    )  # fmt: skip


def _view(lake: Lake) -> LakeView:
    facts = lake_facts(lake)
    rights = withheld(lake.slot, name=lake.slot_name)
    runs = shown_runs(lake, rights, _RUNS_SHOWN)
    tables = [_shown_table(table) for table in facts["tables"]]
    sentence = _lake_sentence(lake, tables, next(iter(runs), None))
    return LakeView(lake=lake, tables=tables, runs=runs, sentence=sentence)


def _shown_table(table: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a table with those that the page shows in words."""
    reported = table["reported_at"] and dt.datetime.fromisoformat(table["reported_at"])
    gaps = [_gap_text(*gap) for gap in table["gaps"]]
    words = {"behind": behind_text(table), "reported": reported, "lacks": some_of(gaps, 3)}
    return {**table, **words}


def _gap_text(incarnation: int, first: int, last: int) -> str:
    if not last:
        return f"what changed before incarnation {incarnation} began"
    span = f"{first:,}" if first == last else f"{first:,} to {last:,}"
    return f"commit_seq {span} of incarnation {incarnation}"


def _lake_sentence(lake: Lake, tables: list[dict[str, Any]], run: LakeRun | None) -> Sentence:
    """Return the state of a lake, its worst problem first."""
    if run is not None and run.waits:
        title, progress = f"{lake}: {_run_title(run)}", progress_of(run)
        cause = f"Requested by {run.requested_by}."
        if progress is not None:
            cause = f"{sentence(progress_text(progress))} in {_took(run)}. {cause}"
        return Sentence(level="idle", title=title, cause=cause)
    if run is not None and run.state == LakeRun.State.FAILED:
        title, following = f"{lake}: the last run failed:", as_next(run.problem_remedy)
        cause = f"{run.reading}: {run.problem_cause}." if run.reading else f"{run.problem_cause}."
        return Sentence(level="now", title=title, cause=cause, next=following)
    if failed := [table for table in tables if table["problem"]]:
        cause, following = f"{failed[0]['problem']}.", as_next(failed[0]["remedy"])
        title = f"{lake}: {failed[0]['table']} failed:"
        return Sentence(level="now", title=title, cause=cause, next=following)
    if lake.slot is None:
        title, following = f"{lake}: its slot was removed.", "forget it: replview lake remove."
        cause = "Its tables stay as they are."
        return Sentence(level="look", title=title, cause=cause, next=following)
    unread = [table["table"] for table in tables if table["reported_at"] is None]
    if unread:
        cause = f"Nothing was read yet of {some_of(unread, 3)}."
        return Sentence(level="look", title=f"{lake}:", cause=cause, next="run it.")
    gaps = [table["table"] for table in tables if table["gaps"]]
    if gaps:
        cause = f"The record lacks changes of {some_of(gaps, 3)}."
        following = "take a baseline of each, so that current has all rows."
        return Sentence(level="look", title=f"{lake}: has gaps.", cause=cause, next=following)
    behind = [table for table in tables if table["behind_changes"]]
    if behind:
        worst = max(behind, key=lambda table: table["behind_changes"])
        return Sentence(level="ok", title=f"{lake}: {worst['behind']} behind.")
    return Sentence(level="ok", title=f"{lake}: up to date.")


def _run_title(run: LakeRun) -> str:
    if run.state == LakeRun.State.WAITING:
        return "waiting for a worker."
    verb = "maintaining" if run.action == LakeRun.Action.MAINTAIN else "reading"
    return f"{verb} {run.reading}." if run.reading else f"{verb}: Spark starts."


def _sentence(views: list[LakeView], refused: Refused | None) -> Sentence:
    """Return the sentence over all lakes: the worst lake's, or how many are up to date."""
    if refused is not None:
        return refusal("idle", "Exports are switched off, and lakes with them.", refused)
    if not views:
        cause = "A lake keeps tables of a slot in Delta or Iceberg."
        following = "add one."
        return Sentence(level="idle", title="No lake yet.", cause=cause, next=following)
    for level in ("now", "look", "idle"):
        for view in views:
            if view.sentence.level == level:
                return view.sentence
    tables = sum(len(view.tables) for view in views)
    worst = max(views, key=lambda view: sum(t["behind_changes"] or 0 for t in view.tables))
    title = f"{plural(len(views), 'lake')}, {plural(tables, 'table')}."
    return Sentence(level="ok", title=title, cause=worst.sentence.title)


def _programs(lake: Lake, table: str, kind: str) -> "list[Program]":
    # Imported late, so that only this page loads pyarrow.
    from replview.spark.lake.programs import programs

    source, _, slot = lake.slot_name.partition("/")
    return programs(lake.format, lake.root, source, slot, table, kind)


def _example() -> str:
    """Return a command that adds a lake, with the names of a slot and a table of this store."""
    slot = Slot.objects.select_related("source").order_by("pk").first()
    tables = recorded_tables(slot)[:1] if slot else []
    return add_command("NAME", str(slot or "SOURCE/SLOT"), "/srv/lake", tables or ["SCHEMA.TABLE"])


def _took(run: LakeRun | None) -> str | None:
    """Return the time that a run took, or has taken until now; None: it has not begun."""
    if run is None or run.started_at is None:
        return None
    return age_words(max(((run.finished_at or timezone.now()) - run.started_at).total_seconds(), 1))
