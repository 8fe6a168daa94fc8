"""Carry out drafts from the browser: add a source, create its slot, or watch it.

Workers claim drafts from the store and run them in threads of their own, because creating a slot
waits for every open transaction. The changes of a draft that fails are undone, also those that a
lost worker made. The draft's page shows the state of each step.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from celery import shared_task
from django.db import DatabaseError, IntegrityError

from replview.acts.slot_making import make_slot
from replview.catalog.connections import reading
from replview.catalog.plan.carrying_out import carry_out, undo
from replview.catalog.plan.new_slot import SlotPlan, make_plan
from replview.catalog.plan.plan import Statement
from replview.catalog.plan.slot_request import pgoutput_of, request_of
from replview.catalog.problems import SourceProblem
from replview.features.onboarding.taking_back import take_back_lost
from replview.features.onboarding.watch import Watching
from replview.jobs import baselines, drafts
from replview.jobs.rows import beating
from replview.jobs.running import stopping
from replview.live.publisher import Publisher, publisher
from replview.store.connecting import orm_connection
from replview.store.dsn import UNUSABLE
from replview.store.models import Slot, SourceDraft
from replview.store.write.access_record import Visit, note, use_visit

_BEAT_SECONDS = 1.0
#: Final state of a step, by its state when the draft ended.
_FINAL_STATES = {"running": "failed", "waiting": "not begun"}
_STORE_TITLES: dict[str, str] = {
    SourceDraft.Kind.WATCH: "Read it through a temporary slot",
    SourceDraft.Kind.MONITOR: "Add the source, and sample it every few seconds",
    SourceDraft.Kind.RECORD: "Add source and slot, and start receiving",
}
log = logging.getLogger(__name__)
Kind = SourceDraft.Kind
#: Most drafts at the same time in one process; each may wait for its source.
_MOST_DRAFTS = 4
_PLAN_SECONDS = 60.0
#: Seconds after which a watch that no worker has started is offered again.
_WATCH_SECONDS = 15.0
#: Seconds without an open live page after which a watch ends.
UNWATCHED_SECONDS = 60.0
_SOURCE_CHANGED = SourceProblem(
    "changed",
    "the source has changed, so other statements would run than those shown",
    "Review them again",
)


class DraftRun:
    """The carrying out of one draft; ``alive`` must surround all of it."""

    def __init__(self, draft: SourceDraft, stopping: threading.Event) -> None:
        self.draft = draft
        #: Set when the draft must end: its user asked for that, or the worker stops.
        self.stop = threading.Event()
        #: A condition that ends the draft, checked with each heartbeat.
        self.over: Callable[[], bool] = lambda: False
        self._stopping = stopping
        #: Undo statements that failed, in this or an earlier attempt.
        self._left: list[str] = list(draft.undo)

    @contextmanager
    def alive(self) -> Iterator["DraftRun"]:
        """Send heartbeats from a thread until the block ends."""
        with beating(self._check_stop, _BEAT_SECONDS):
            yield self

    def begin(self, steps: list[Statement], *, baseline: bool = False) -> None:
        """Set the steps that the draft's page shows."""
        lines = [
            _progress_line(f"{step.kind} {step.name}", f"Create {step.kind} {step.name}", str(step))
            for step in steps
        ]
        lines.append(_progress_line("store", _STORE_TITLES[self.draft.kind]))
        if baseline:
            lines.append(_progress_line("baseline", "Request baselines of the tables"))
        self.draft.progress = lines
        self._beat()

    def on_step(self, step: Statement, state: str) -> None:
        """Record that a statement is running, done, failed, taken back or left on the source."""
        statement = step.undo
        if state in ("done", "taken back"):
            # A step succeeds only if its object did not exist, so older undos are obsolete.
            self.draft.undo = [
                undo_statement for undo_statement in self.draft.undo if undo_statement != statement
            ]
            self._left = [
                undo_statement for undo_statement in self._left if undo_statement != statement
            ]
        if state == "done":
            self.draft.undo.append(statement)
        elif state == "left":
            self._left.append(statement)
        self.step(f"{step.kind} {step.name}", state)

    def step(self, name: str, state: str) -> None:
        """Store the state of a step."""
        for line in self.draft.progress:
            if line["name"] == name:
                line["state"], line["said"] = state, ""
        self._beat()

    def handed_over(self) -> None:
        """Forget the undo statements, since the store has the slot now.

        From here on the slot is undone by removing it. Statements that an earlier attempt left are
        undone by that attempt's intention.
        """
        self.draft.undo, self._left = [], []
        self._beat()

    def say(self, words: str) -> None:
        """Set the text of the running step, such as what it waits for."""
        for line in self.draft.progress:
            if line["state"] == "running":
                line["said"] = words

    def done(self, **columns: Any) -> bool:
        """End the draft as done, or as failed if a statement could not be undone."""
        if self._left:
            cause = "some of what was created on the source could not be dropped"
            self.fail(SourceProblem("left", cause, "Drop the rest yourself"))
            return False
        return drafts.end(self.draft, "DONE", **columns)

    def fail(self, trouble: SourceProblem) -> None:
        """End the draft as cancelled if its user asked for that, else as failed."""
        stop_wanted = SourceDraft.objects.filter(pk=self.draft.pk, stop_wanted=True).exists()
        for line in self.draft.progress:
            line["state"] = _FINAL_STATES.get(line["state"], line["state"])
            if stop_wanted and line["state"] == "failed":
                line["state"] = "stopped"
        if stop_wanted and not self._left:
            drafts.end(self.draft, "CANCELLED")
            return
        cause, remedy = trouble.cause, trouble.remedy
        if trouble.code == "stopped":
            cause, remedy = "the worker was stopped before it had finished", "Try again"
        if self._left:
            remedy = "; ".join([f"{remedy}. Some objects are left on the source; drop them there: "
                                f"{self._left[0]}", *self._left[1:]])  # fmt: skip
        drafts.end(self.draft, "FAILED", problem_code=trouble.code, problem_cause=cause,
                   problem_remedy=remedy)  # fmt: skip

    def _check_stop(self) -> None:
        if self._stopping.is_set() or not drafts.beat(self.draft) or self.over():
            self.stop.set()

    def _beat(self) -> None:
        try:
            if not drafts.beat(self.draft):
                self.stop.set()
        except DatabaseError as error:
            # The store is unreachable for the moment; the next heartbeat writes the same.
            log.warning("draft %s: no heartbeat (%s)", self.draft.pk, type(error).__name__)


def _progress_line(name: str, title: str, sql: str = "") -> dict[str, str]:
    return {"name": name, "title": title, "sql": sql, "state": "waiting", "said": ""}


def _recover() -> None:
    """Undo the drafts of lost workers, and offer watches to the receivers' workers.

    A watch uses a thread of such a worker until it ends.
    """
    take_back_lost()
    for draft_id in drafts.waiting_watches():
        watch_source.apply_async([draft_id], queue="receivers", expires=_WATCH_SECONDS)


@shared_task(name="replview.watch", ignore_result=True)
def watch_source(draft_id: int) -> None:
    """Receive a watch on a temporary slot until its page is closed."""
    watch(draft_id, publisher())


def watch(draft_id: int, wakes: Publisher) -> None:
    """Receive a watch until its page is closed; do nothing if another worker claimed it."""
    with orm_connection():
        draft = drafts.claim([Kind.WATCH], draft_id)
        if draft is not None:
            with DraftRun(draft, stopping).alive() as run:
                act_on(run, lambda run: _watch(run, wakes))


def _carry_out(draft: SourceDraft, stop: threading.Event) -> None:
    with DraftRun(draft, stop).alive() as run:
        act_on(run, ACTS[draft.kind])


def act_on(run: DraftRun, act: Callable[[DraftRun], None]) -> None:
    """Run ``act``, and store its failure in the draft."""
    try:
        act(run)
    except SourceProblem as error:
        run.fail(error)
    except UNUSABLE as error:
        run.fail(SourceProblem("bad_dsn", str(error), "Correct the address"))
    except IntegrityError:
        name = run.draft.answers.get("name")
        cause = f"there is already a source or slot named {name}"
        run.fail(SourceProblem("name_taken", cause, "Choose another name"))
    except Exception as error:
        # Log the type alone: the text may hold values that the source sent.
        log.error("draft %s: %s", run.draft.pk, type(error).__name__)
        cause = f"replview itself failed ({type(error).__name__})"
        run.fail(SourceProblem("internal", cause, "See the log of the workers"))


def _add_source(run: DraftRun) -> None:
    """Add the source and change nothing on it."""
    run.begin([])
    source = drafts.source_for(run.draft)
    run.step("store", "running")
    source.save()
    run.step("store", "done")
    if run.done(source=source):
        _note_act(run, "changed_source", str(source), source_id=source.pk, details={"act": "add"})


def _create_slot(run: DraftRun) -> None:
    """Create publication and slot, add them to the store, and request the chosen baselines."""
    draft, conninfo = run.draft, drafts.conninfo_of(run.draft)
    plan = _agreed_plan(draft, conninfo)
    run.begin(list(plan.statements), baseline=_wants_baseline(draft))
    is_new = draft.source is None
    options: dict[str, Any] = draft.answers.get("options") or {}
    slot = make_slot(
        draft.source or drafts.source_for(draft),
        conninfo,
        plan,
        run.say,
        stopped=False,
        options=pgoutput_of(draft.answers),
        interface=str(options.get("interface") or Slot.Interface.WALSENDER),
        keep_aborted=bool(options.get("keep_aborted")),
        stop=run.stop,
        on_step=run.on_step,
        draft=draft,
    )
    run.handed_over()
    run.step("store", "done")
    if _wants_baseline(draft):
        for table in baselines.tables_of(slot):
            by = draft.user.get_username()
            baselines.request(slot, table["schema"], table["table"], by=by)
        run.step("baseline", "done")
    run.done(source=slot.source, slot=slot)
    if is_new:
        source = slot.source
        _note_act(run, "changed_source", str(source), source_id=source.pk, details={"act": "add"})
    details = {"act": "create", "statements": [str(step) for step in plan.statements]}
    _note_act(run, "changed_slot", str(slot), source_id=slot.source_id, details=details)


def _watch(run: DraftRun, wakes: Publisher) -> None:
    """Receive a temporary slot until its page is closed, and undo what was created for it."""
    draft, conninfo = run.draft, drafts.conninfo_of(run.draft)
    plan = _agreed_plan(draft, conninfo)
    run.begin(list(plan.statements))
    created = carry_out(conninfo, plan, run.say, stop=run.stop, on_step=run.on_step)
    try:
        watching = Watching(conninfo, plan, pgoutput_of(draft.answers), run.say, wakes)
        run.step("store", "running")
        with watching.registered() as slot:
            SourceDraft.objects.filter(pk=draft.pk).update(slot=slot)
            run.step("store", "done")
            statements = [str(step) for step in plan.statements]
            details = {"act": "watch", "statements": statements}
            _note_act(run, "changed_slot", str(slot), source_id=slot.source_id, details=details)
            run.over = lambda: drafts.seen_seconds_ago(draft) > UNWATCHED_SECONDS
            watching.receive(slot, run.stop)
    finally:
        undo(conninfo, created, run.say, run.on_step)
    run.done()


def _agreed_plan(draft: SourceDraft, conninfo: str) -> SlotPlan:
    """Return the current plan. Raises ``SourceProblem`` unless its statements were agreed to."""
    slot_request = request_of(draft.answers, temporary=draft.kind == Kind.WATCH)
    with reading(conninfo, deadline_seconds=_PLAN_SECONDS) as connection:
        plan = make_plan(connection, slot_request)
    if [str(step) for step in plan.statements] != draft.answers.get("statements"):
        raise _SOURCE_CHANGED.anew()
    return plan


def _wants_baseline(draft: SourceDraft) -> bool:
    return bool((draft.answers.get("options") or {}).get("baseline"))


def _note_act(run: DraftRun, action: str, subject: str, **fields: Any) -> None:
    # Attribute the act to the account that agreed to it, not to the worker.
    with use_visit(Visit(lambda: run.draft.user)):
        note(action, subject=subject, **fields)


#: Function that carries out a draft, by kind; a watch has a task of its own.
ACTS: dict[str, Callable[[DraftRun], None]] = {Kind.MONITOR: _add_source, Kind.RECORD: _create_slot}
#: A lost worker's draft is undone and failed. ``private``: errors may hold a source's values.
KIND = drafts.rows.served(
    name="onboarding",
    claim=lambda: drafts.claim([Kind.MONITOR, Kind.RECORD]),
    run=_carry_out,
    recover=_recover,
    at_once=_MOST_DRAFTS,
    private=True,
)
