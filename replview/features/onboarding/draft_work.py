"""One draft being carried out: its steps as its page shows them, its sign of life, its end."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import DatabaseError

from replview.acts.slot_sweeping import sweep
from replview.catalog.connections import connect
from replview.catalog.plan.plan import Statement
from replview.catalog.problems import SourceProblem
from replview.jobs import drafts, intentions
from replview.jobs.rows import beating
from replview.store.models import SourceDraft
from replview.store.reachable import DSNError
from replview.store.secrets import SecretKeyChanged

log = logging.getLogger(__name__)

_BEAT_SECONDS = 1.0
_STORE, _BASELINE = "store", "baseline"


class Work:
    """Use ``alive`` around all of it."""

    def __init__(self, draft: SourceDraft, stopping: threading.Event) -> None:
        self.draft = draft
        #: Set when it is to end: asked for by the user, or the worker stops.
        self.stop = threading.Event()
        #: A reason to end that is looked for with each sign of life.
        self.over: Callable[[], bool] = lambda: False
        self._stopping = stopping
        #: What is on the source and could not be taken back, also by an earlier attempt.
        self._left: list[str] = list(draft.undo)

    @contextmanager
    def alive(self) -> Iterator["Work"]:
        """Signs of life from a thread of its own, until the block ends."""
        with beating(self._look_around, _BEAT_SECONDS):
            yield self

    def begin(self, steps: list[Statement], *, baseline: bool = False) -> None:
        """The lines that its page shows from now on."""
        lines = [_line(f"{step.kind} {step.name}", _title(step), str(step)) for step in steps]
        lines.append(_line(_STORE, _STORED[self.draft.kind]))
        if baseline:
            lines.append(_line(_BASELINE, "Ask for the rows the tables have now"))
        self.draft.progress = lines
        self._beat()

    def on_step(self, step: Statement, state: str) -> None:
        """From the carrying out: a statement is running, done, failed, taken back or left."""
        statement = step.undo
        if state in ("done", "taken back"):
            # What could be made was not there any more, whoever took it back.
            self.draft.undo = [one for one in self.draft.undo if one != statement]
            self._left = [one for one in self._left if one != statement]
        if state == "done":
            self.draft.undo.append(statement)
        elif state == "left":
            self._left.append(statement)
        self.step(f"{step.kind} {step.name}", state)

    def step(self, name: str, state: str) -> None:
        """A line's new state."""
        for line in self.draft.progress:
            if line["name"] == name:
                line["state"], line["said"] = state, ""
        self._beat()

    def handed_over(self) -> None:
        """The store has the slot: it is taken back as any slot is, by removing it. What an earlier
        attempt left is looked after by that one's intention.
        """
        self.draft.undo, self._left = [], []
        self._beat()

    def say(self, words: str) -> None:
        """What a step that runs waits for."""
        for line in self.draft.progress:
            if line["state"] == "running":
                line["said"] = words

    def done(self, **columns: Any) -> bool:
        """It is all there (or, of a watch, all gone)."""
        if self._left:
            self.fail(
                SourceProblem("left", "what was made for it could not be taken back", "See below")
            )
            return False
        return drafts.end(self.draft, "DONE", **columns)

    def fail(self, trouble: SourceProblem) -> None:
        """It came to nothing: because its user wanted so, or for a reason that is told."""
        wanted = SourceDraft.objects.filter(pk=self.draft.pk, stop_wanted=True).exists()
        for line in self.draft.progress:
            line["state"] = _ENDED.get(line["state"], line["state"])
            if wanted and line["state"] == "failed":
                line["state"] = "stopped"
        if wanted and not self._left:
            drafts.end(self.draft, "CANCELLED")
            return
        cause, remedy = trouble.cause, trouble.remedy
        if trouble.code == "stopped":
            cause, remedy = "the worker was stopped before it was done", "Try again"
        if self._left:
            remedy = "; ".join([f"{remedy}. Left on the source, to be run there by you: "
                                f"{self._left[0]}", *self._left[1:]])  # fmt: skip
        drafts.end(
            self.draft,
            "FAILED",
            problem_code=trouble.code,
            problem_cause=cause,
            problem_remedy=remedy,
        )

    def _look_around(self) -> None:
        if self._stopping.is_set() or not drafts.beat(self.draft) or self.over():
            self.stop.set()

    def _beat(self) -> None:
        try:
            if not drafts.beat(self.draft):
                self.stop.set()
        except DatabaseError as error:
            # The store is away for a moment: the next sign says the same.
            log.warning("draft %s: no sign of life (%s)", self.draft.pk, type(error).__name__)


def take_back_lost() -> None:
    """Take back what workers left on sources that gave no sign of life for a while."""
    while (draft := drafts.rows.claim(drafts.rows.lost)) is not None:
        if draft.slot is not None and draft.kind == SourceDraft.Kind.RECORD:
            # It was all done but for saying so.
            draft.undo = []
            drafts.end(draft, "DONE")
            continue
        swept = bool(intentions.of_draft(draft))
        left = _sweep(draft) if swept else _take_back(draft)
        remedy = "Try again"
        if left:
            goes_on = (
                "replview goes on trying to take back what was made. Or run" if swept else "Run"
            )
            remedy = f"{goes_on} on the source yourself: {'; '.join(left)}"
        drafts.end(
            draft,
            "FAILED",
            problem_code="lost",
            problem_cause="the worker ended before it was done",
            problem_remedy=remedy,
        )


def _sweep(draft: SourceDraft) -> list[str]:
    """Take back what was made, also by the statement that was running when its worker ended."""
    left = [one for row in intentions.of_draft(draft) for one in sweep(row, maker_gone=True)]
    draft.undo = left
    return left


def _take_back(draft: SourceDraft) -> list[str]:
    """Run what takes back what was made, the last first; returns what could not be run."""
    left = []
    for statement in reversed(draft.undo):
        try:
            with connect(drafts.conninfo_of(draft), read_only=False) as connection:
                # Composed by psycopg when the step was planned.
                connection.execute(statement.encode())
        except (psycopg.Error, DSNError, SecretKeyChanged, SourceProblem):
            left.append(statement)
    draft.undo = left
    return left


#: State of a step → what it is once nothing goes on any more.
_ENDED = {"running": "failed", "waiting": "not begun"}
_STORED: dict[str, str] = {
    SourceDraft.Kind.WATCH: "Read it through a temporary slot",
    SourceDraft.Kind.MONITOR: "Add the source, and look at it every few seconds",
    SourceDraft.Kind.RECORD: "Add source and slot, and begin to receive",
}


def _line(name: str, title: str, sql: str = "") -> dict[str, str]:
    return {"name": name, "title": title, "sql": sql, "state": "waiting", "said": ""}


def _title(step: Statement) -> str:
    return f"Create {step.kind} {step.name}"
