"""Show a plan before it runs, with rights and cost of each statement, and then its progress."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.urls import reverse
from django.utils import timezone

from replview.catalog.connections import reading
from replview.catalog.plan.new_slot import make_plan
from replview.catalog.plan.plan import Statement
from replview.catalog.plan.slot_request import request_of
from replview.catalog.problems import SourceProblem
from replview.features.onboarding.steps import KINDS, trouble_of
from replview.jobs import drafts
from replview.store.models import Slot, SourceDraft
from replview.text.addresses import stream_url
from replview.text.formats import plural
from replview.text.problem import with_place
from replview.ui.managed import EXPECTED
from replview.ui.sentence import PLACES, sentence

_DEADLINE_SECONDS = 30.0
Kind = SourceDraft.Kind
#: Step that fixes a problem, by the problem's code.
_STEP_OF_PROBLEM = {
    code: step
    for step, codes in {
        "options": "bad_slot_name slot_exists publication_exists bad_publication_name "
        "bad_heartbeat bad_budget no_failover",
        "tables": "no_such_table no_tables not_owner may_not_publish no_such_publication "
        "unusable_tables not_superuser",
        "columns": "all_tables_columns no_such_column identity_column",
    }.items()
    for code in codes.split()
}
State = SourceDraft.State
#: Seconds after which no worker seems to run: a free one starts within two seconds.
UNCLAIMED_SECONDS = 10
#: Time after which the live page opens even if the receiver has not connected; it says why.
_PATIENCE = timedelta(seconds=15)
#: Level and text of a step, by its state.
_STATE_WORDS = {
    "waiting": ("idle", "waits"),
    "running": ("unknown", "running"),
    "done": ("ok", "done"),
    "failed": ("now", "failed"),
    "stopped": ("idle", "stopped"),
    "not begun": ("idle", "not begun"),
    "taken back": ("idle", "taken back"),
    "left": ("look", "left: see below"),
}


@dataclass(frozen=True, slots=True)
class Review:
    """The plan as a page shows it, or the problem that prevents a plan."""

    steps: tuple[Statement, ...] = ()
    notes: list[str] = field(default_factory=list)
    waits_for: list[str] = field(default_factory=list)
    trouble: SourceProblem | None = None

    @property
    def statements(self) -> list[str]:
        """Return the statements as SQL text."""
        return [str(step) for step in self.steps]

    @property
    def digest(self) -> str:
        """Return the digest of the statements that the user agrees to; no others are run."""
        return hashlib.sha256("\0".join(self.statements).encode()).hexdigest()

    @property
    def mended_in(self) -> str:
        """Return the step that fixes the problem; empty if there is none."""
        return _STEP_OF_PROBLEM.get(self.trouble.code, "") if self.trouble else ""


def review(draft: SourceDraft) -> Review:
    """Read the source and plan the statements, without running them."""
    if draft.kind == Kind.MONITOR:
        return Review()
    try:
        slot_request = request_of(draft.answers, temporary=draft.kind == Kind.WATCH)
        conninfo = drafts.conninfo_of(draft)
        with reading(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
            plan = make_plan(connection, slot_request)
    except EXPECTED as error:
        return Review(trouble=trouble_of(error))
    return Review(
        steps=plan.statements,
        notes=[sentence(with_place(note.text, note.field, PLACES)) for note in plan.notes],
        waits_for=[str(item) for item in plan.waits_for],
    )


def chosen_words(answers: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the choices of the draft, as a label and a text for each step."""
    lines = []
    if answers.get("through") == "publications":
        lines.append(("Tables", f"those of {', '.join(answers.get('publications') or ())}"))
    elif answers.get("through") == "all":
        lines.append(("Tables", "all tables, also future ones"))
    elif answers.get("tables"):
        lines.append(("Tables", plural(len(answers["tables"]), "table")))
    rules = [
        rule
        for table_rules in (answers.get("columns") or {}).values()
        for rule in table_rules.values()
    ]
    if "columns" in answers:
        masked, left_out = rules.count("mask"), rules.count("drop")
        words = f"{masked} masked, {left_out} left out" if rules else "all kept"
        lines.append(("Columns", words))
    return lines


@dataclass(frozen=True, slots=True)
class PlanLine:
    """A step of a draft that is carried out, as the page shows it."""

    title: str
    sql: str
    level: str
    word: str
    message: str


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """The state of a draft that is carried out or has ended."""

    level: str
    title: str
    cause: str = ""
    lines: list[PlanLine] = field(default_factory=list)
    moving: bool = False
    trouble: SourceProblem | None = None
    #: True when the draft can be cancelled, which undoes its statements.
    may_stop: bool = False
    #: True when the draft can be reviewed and tried again.
    may_retry: bool = False


def carried_out(draft: SourceDraft) -> CarriedOut:
    """Describe the state of a draft that is carried out or has ended."""
    lines = [_plan_line(step) for step in draft.progress]
    name, words = draft.answers.get("name", ""), KINDS[Kind(draft.kind)]
    if draft.stop_wanted and draft.state in (State.WAITING, State.RUNNING):
        return CarriedOut("idle", "Being undone.", f"Nothing will be left on {name}.",
                          lines, moving=True)  # fmt: skip
    match draft.state:
        case State.WAITING:
            return _waiting(draft, lines)
        case State.RUNNING:
            running_step = next((f"{step['title']}." for step in draft.progress
                                 if step["state"] == "running"), "")  # fmt: skip
            return CarriedOut("idle", f"{words.title}: being set up.", running_step, lines,
                              moving=True, may_stop=True)  # fmt: skip
        case State.FAILED:
            trouble = SourceProblem(draft.problem_code, draft.problem_cause, draft.problem_remedy)
            remainder = (
                "Something is left on it, see below." if draft.undo else "Nothing is left on it"
            )
            cause = f"{sentence(trouble.cause)}. {remainder.rstrip('.')}."
            return CarriedOut("now", f"{name} is not set up.", cause, lines, trouble=trouble,
                              may_retry=True)  # fmt: skip
        case State.CANCELLED:
            return CarriedOut("idle", "Cancelled.", f"Everything was undone: nothing is left on "
                              f"{name}, and its address is deleted.", lines)  # fmt: skip
    if draft.kind == Kind.WATCH:
        return CarriedOut("ok", "The watch has ended.", f"Its slot is gone from {name}, and what "
                          "was received is deleted.", lines)  # fmt: skip
    return _finished(draft, lines)


def next_address(draft: SourceDraft) -> str:
    """Return the address of the page that follows; empty while there is none."""
    slot: Slot | None = draft.slot
    if draft.kind == Kind.MONITOR and draft.state == State.DONE and draft.source:
        return reverse("source-slots", args=[draft.source.name])
    if draft.stop_wanted or slot is None:
        return ""
    late = draft.asked_at is not None and timezone.now() - draft.asked_at > _PATIENCE
    begun = slot.state == Slot.State.STREAMING or bool(slot.problem_code) or late
    ready = draft.state == (State.RUNNING if draft.kind == Kind.WATCH else State.DONE)
    return stream_url(slot) if ready and begun else ""


def _waiting(draft: SourceDraft, lines: list[PlanLine]) -> CarriedOut:
    """Describe a draft that waits for a worker."""
    waited = timezone.now() - (draft.asked_at or draft.created_at)
    if waited > timedelta(seconds=UNCLAIMED_SECONDS):
        return CarriedOut("look", "No worker has started.", "None is running, or all are busy: "
                          "check that replview up runs. Nothing is on the source.", lines,
                          moving=True, may_stop=True)  # fmt: skip
    return CarriedOut("idle", "Starting.", "A worker starts within seconds.",
                      lines, moving=True, may_stop=True)  # fmt: skip


def _finished(draft: SourceDraft, lines: list[PlanLine]) -> CarriedOut:
    """Describe a draft that was carried out."""
    name = draft.answers.get("name", "")
    if draft.slot is None:
        return CarriedOut("ok", f"{name} is added.", "", lines)
    level, word = ("ok", "done") if draft.slot.state == Slot.State.STREAMING else (
        "unknown", draft.slot.state)  # fmt: skip
    receiver_line = PlanLine("The receiver connects", "", level, word, draft.slot.problem_cause)
    return CarriedOut("ok", f"{name} is being recorded.", "Its live page opens automatically.",
                      [*lines, receiver_line], moving=True)  # fmt: skip


def _plan_line(step: dict[str, Any]) -> PlanLine:
    level, word = _STATE_WORDS.get(step["state"], ("unknown", step["state"]))
    return PlanLine(step["title"], step["sql"], level, word, step["said"])
