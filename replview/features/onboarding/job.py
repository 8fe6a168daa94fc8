"""Carrying out what was agreed to in the browser: a source, its slot, or a watch of it.

Drafts are claimed from the store and carried out in threads of their own: creating a slot waits for
every open transaction. What stops halfway is taken back, also what a lost worker left; the draft's
page shows each step as it is done.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any

from celery import shared_task
from django.db import IntegrityError

from replview.acts.slot_making import make_slot
from replview.catalog.connections import reading
from replview.catalog.plan.new_slot import SlotPlan, make_plan
from replview.catalog.plan.plan import carry_out, undo
from replview.catalog.plan.slot_request import pgoutput_of, request_of
from replview.catalog.problems import SourceProblem
from replview.features.onboarding.draft_work import Work, take_back_lost
from replview.features.onboarding.watch import Watching
from replview.jobs import baselines, drafts
from replview.jobs.running import stopping
from replview.live.publisher import Publisher, publisher
from replview.store.connecting import orm_connection
from replview.store.models import Slot, SourceDraft
from replview.store.reachable import DSNError
from replview.store.secrets import SecretKeyChanged
from replview.store.write.access_record import Visit, note, use_visit

log = logging.getLogger(__name__)

Kind = SourceDraft.Kind
#: Drafts at the same time in one process; each may wait for its source.
_AT_ONCE = 4
_PLAN_SECONDS = 60.0
#: A watch that no worker has begun by then is offered anew.
_WATCH_SECONDS = 15.0
#: A watch ends when nobody has had its live page open for so long.
UNWATCHED_SECONDS = 60.0
_CHANGED = SourceProblem(
    "changed",
    "the source has changed since the statements were shown, so that others would run now",
    "Look at them again",
)


def _recover() -> None:
    """Clean up after workers that are lost, and offer watches to the receivers' workers: each takes
    a thread there for as long as it lasts.
    """
    take_back_lost()
    for draft_id in drafts.waiting_watches():
        watch_source.apply_async([draft_id], queue="receivers", expires=_WATCH_SECONDS)


@shared_task(name="replview.watch", ignore_result=True)
def watch_source(draft_id: int) -> None:
    """Receive a watch on a temporary slot, until nobody looks any more."""
    watch(draft_id, publisher())


def watch(draft_id: int, wakes: Publisher) -> None:
    """Receive a watch until nobody looks any more; nothing happens if another worker has it."""
    with orm_connection():
        draft = drafts.claim([Kind.WATCH], draft_id)
        if draft is not None:
            with Work(draft, stopping).alive() as work:
                act_on(work, lambda work: _watch(work, wakes))


def _carry_out(draft: SourceDraft, stop: threading.Event) -> None:
    with Work(draft, stop).alive() as work:
        act_on(work, ACTS[draft.kind])


def act_on(work: Work, act: Callable[[Work], None]) -> None:
    """Do it, and keep what became of it."""
    try:
        act(work)
    except SourceProblem as error:
        work.fail(error)
    except (DSNError, SecretKeyChanged) as error:
        work.fail(SourceProblem("bad_dsn", str(error), "Correct the address"))
    except IntegrityError:
        name = work.draft.answers.get("name")
        cause = f"there is a source or slot of the name {name} by now"
        work.fail(SourceProblem("name_taken", cause, "Choose another name"))
    except Exception as error:
        # Named by its type alone: its text may hold what a source sent.
        log.error("draft %s: %s", work.draft.pk, type(error).__name__)
        cause = f"replview itself failed ({type(error).__name__})"
        work.fail(SourceProblem("internal", cause, "See the log of the workers"))


def _monitor(work: Work) -> None:
    """The source alone: nothing is made on it."""
    work.begin([])
    source = drafts.source_for(work.draft)
    work.step("store", "running")
    source.save()
    work.step("store", "done")
    if work.done(source=source):
        _note(work, "changed_source", str(source), source_id=source.pk, details={"act": "add"})


def _record(work: Work) -> None:
    """Publication, slot, both in the store; then the baselines that were wanted."""
    draft, conninfo = work.draft, drafts.conninfo_of(work.draft)
    plan = _plan(draft, conninfo)
    work.begin(list(plan.statements), baseline=_wants_baseline(draft))
    is_new = draft.source is None
    options: dict[str, Any] = draft.answers.get("options") or {}
    slot = make_slot(
        draft.source or drafts.source_for(draft),
        conninfo,
        plan,
        work.say,
        stopped=False,
        options=pgoutput_of(draft.answers),
        interface=str(options.get("interface") or Slot.Interface.WALSENDER),
        keep_aborted=bool(options.get("keep_aborted")),
        stop=work.stop,
        on_step=work.on_step,
        draft=draft,
    )
    work.handed_over()
    work.step("store", "done")
    if _wants_baseline(draft):
        for table in baselines.tables_of(slot):
            by = draft.user.get_username()
            baselines.request(slot, table["schema"], table["table"], by=by)
        work.step("baseline", "done")
    work.done(source=slot.source, slot=slot)
    if is_new:
        source = slot.source
        _note(work, "changed_source", str(source), source_id=source.pk, details={"act": "add"})
    made = {"act": "create", "statements": [str(step) for step in plan.statements]}
    _note(work, "changed_slot", str(slot), source_id=slot.source_id, details=made)


def _watch(work: Work, wakes: Publisher) -> None:
    """A temporary slot, for as long as somebody looks."""
    draft, conninfo = work.draft, drafts.conninfo_of(work.draft)
    plan = _plan(draft, conninfo)
    work.begin(list(plan.statements))
    made = carry_out(conninfo, plan, work.say, stop=work.stop, on_step=work.on_step)
    try:
        watching = Watching(conninfo, plan, pgoutput_of(draft.answers), work.say, wakes)
        work.step("store", "running")
        with watching.registered() as slot:
            SourceDraft.objects.filter(pk=draft.pk).update(slot=slot)
            work.step("store", "done")
            statements = [str(step) for step in plan.statements]
            told = {"act": "watch", "statements": statements}
            _note(work, "changed_slot", str(slot), source_id=slot.source_id, details=told)
            work.over = lambda: drafts.seen_seconds_ago(draft) > UNWATCHED_SECONDS
            watching.receive(slot, work.stop)
    finally:
        undo(conninfo, made, work.say, work.on_step)
    work.done()


#: What becomes of a draft in one go.
ACTS: dict[str, Callable[[Work], None]] = {Kind.MONITOR: _monitor, Kind.RECORD: _record}


def _plan(draft: SourceDraft, conninfo: str) -> SlotPlan:
    """The plan as it is now. Raises ``SourceProblem`` unless its statements are those shown."""
    slot_request = request_of(draft.answers, temporary=draft.kind == Kind.WATCH)
    with reading(conninfo, deadline_seconds=_PLAN_SECONDS) as connection:
        plan = make_plan(connection, slot_request)
    if [str(step) for step in plan.statements] != draft.answers.get("statements"):
        raise _CHANGED.anew()
    return plan


def _wants_baseline(draft: SourceDraft) -> bool:
    return bool((draft.answers.get("options") or {}).get("baseline"))


def _note(work: Work, action: str, subject: str, **more: Any) -> None:
    # A draft's own page has it done: by whoever agreed there, though a worker does it.
    with use_visit(Visit(lambda: work.draft.user)):
        note(action, subject=subject, **more)


#: A lost worker's draft is taken back, and failed. What its errors say may be a source's words.
KIND = drafts.rows.served(
    name="onboarding",
    claim=lambda: drafts.claim([Kind.MONITOR, Kind.RECORD]),
    run=_carry_out,
    recover=_recover,
    at_once=_AT_ONCE,
    private=True,
)
