"""This module makes the requested troubles, each in a thread, and cleans up before and after."""

import datetime as dt
import logging
import threading
import time
from contextlib import closing

import psycopg
from django.db import Error as StoreError
from django.utils import timezone

from replview.demo.trouble.changes import (
    Flood,
    LongTransaction,
    PoisonChange,
    PreparedTransaction,
    SchemaChange,
)
from replview.demo.trouble.place import CannotMake, Trouble, TroubleSite
from replview.demo.trouble.rules import MAKER, ensure_rules, is_due, switch_off, switch_on
from replview.demo.trouble.slots import IdleSlot, LostSlot, PausedReceiver
from replview.demo.workload.session import one_line
from replview.store import demo_troubles as troubles
from replview.store.connecting import orm_connection
from replview.store.demo_troubles import TroubleState

#: Seconds that the effects may outlast a trouble before it is reported as off all the same.
_MAX_EFFECT_SECONDS = 90.0
#: Seconds between tries to undo a trouble, which are repeated until one succeeds.
_RETRY_SECONDS = 1.0
log = logging.getLogger("replview.demo.trouble")
KINDS: tuple[type[Trouble], ...] = (
    PausedReceiver, PreparedTransaction, LongTransaction, Flood, IdleSlot, LostSlot, SchemaChange,
    PoisonChange,
)  # fmt: skip
#: Seconds between reading requests, and between heartbeats.
_POLL_SECONDS, _ALIVE_SECONDS = 0.3, 2.0
#: Seconds for all threads to undo their troubles, less than the process manager allows.
_STOP_SECONDS = 12.0


class Course(threading.Thread):
    """A thread that makes its trouble while ``wanted`` is set, and undoes it."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(name=trouble.name, daemon=True)
        self.trouble = trouble
        self.wanted = threading.Event()
        self.stopping = threading.Event()
        #: When the trouble ended; None: its rules are off, or it lasts.
        self._rules_since: dt.datetime | None = None

    def run(self) -> None:
        """Make the trouble whenever it is wanted, until ``stop`` is called; then undo it."""
        while not self.stopping.is_set():
            if self.wanted.wait(0.2) and not self.stopping.is_set():
                self._once()
            if self._rules_since is not None and is_due(self._rules_since):
                self._rules_since = None
                with orm_connection():
                    switch_off(self.trouble)

    def stop(self) -> None:
        """Tell the thread to undo its trouble and end."""
        self.stopping.set()

    def _once(self) -> None:
        """Make and undo the trouble once."""
        name = self.trouble.name
        log.info("%s: begins", name)
        note = ""
        try:
            with orm_connection():
                switch_on(self.trouble)
            note = self._make()
        except CannotMake as problem:
            note = str(problem)
        except (psycopg.Error, StoreError) as error:
            # The message is about configuration or locks, and quotes no value of a table.
            note = f"It was given up: {one_line(error)}"
        log.info("%s: ends%s", name, f" ({note})" if note else "")
        self._undo(note)
        self._rules_since = timezone.now()

    def _make(self) -> str:
        """Make the trouble until unwanted or its time is up; return why, if it ended by itself."""
        ends_at = timezone.now() + dt.timedelta(seconds=self.trouble.lasts_seconds)
        deadline = time.monotonic() + self.trouble.lasts_seconds
        self._report(TroubleState.COMING, ends_at=ends_at)
        is_on = False
        with closing(self.trouble.make()) as steps:  # type: ignore[type-var]
            for now_there in steps:
                if now_there and not is_on:
                    is_on = True
                    self._report(TroubleState.ON, ends_at=ends_at)
                if self._pause(min(self.trouble.pause_seconds, deadline - time.monotonic())):
                    return ""
                if time.monotonic() >= deadline:
                    return "It ended by itself: its time was up."
        return "It ended by itself: it had done enough."

    def _pause(self, seconds: float) -> bool:
        """Wait, and return True if the trouble is no longer wanted or the demo stops."""
        deadline = time.monotonic() + seconds
        while self.wanted.is_set() and not self.stopping.is_set():
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                return False
            self.stopping.wait(min(seconds_left, 0.1))
        return True

    def _undo(self, note: str) -> None:
        """Undo the trouble, wait until its effects are over, and report that it is off."""
        self._report(TroubleState.ENDING, note=note)
        while not self._try_to_end():
            if self.stopping.wait(_RETRY_SECONDS):
                # The server may still run, so that another try may succeed.
                self._try_to_end()
                break
        deadline = time.monotonic() + _MAX_EFFECT_SECONDS
        while time.monotonic() < deadline and not self.stopping.is_set() and not self._is_over():
            self.stopping.wait(0.5)
        if self.wanted.is_set():
            self._call_off()
        self._report(TroubleState.OFF, note=note)

    def _try_to_end(self) -> bool:
        try:
            self.trouble.end()
        except (psycopg.Error, StoreError) as error:
            log.warning("%s: not undone yet: %s", self.trouble.name, one_line(error))
            return False
        return True

    def _is_over(self) -> bool:
        try:
            return self.trouble.is_over()
        except psycopg.Error:
            return False

    def _call_off(self) -> None:
        """Withdraw the request for a trouble that ended by itself."""
        self.wanted.clear()
        try:
            with orm_connection():
                troubles.request(self.trouble.name, False, MAKER)
        except StoreError as error:
            log.warning("%s: cannot be called off: %s", self.trouble.name, one_line(error))

    def _report(
        self, state: TroubleState, *, ends_at: dt.datetime | None = None, note: str = ""
    ) -> None:
        try:
            with orm_connection():
                troubles.report_state(self.trouble.name, state, ends_at=ends_at, note=note)
        except StoreError as error:
            log.warning("%s: cannot be told to be %s: %s", self.trouble.name, state,
                        one_line(error))  # fmt: skip


def run(place: TroubleSite, stopping: threading.Event) -> None:
    """Make troubles until ``stopping`` is set; nothing is left of any trouble then."""
    troubles_made = [kind(place) for kind in KINDS]
    if not _clean_up(troubles_made, stopping):
        return
    courses = [Course(trouble) for trouble in troubles_made]
    for course in courses:
        course.start()
    try:
        _follow_requests(courses, stopping)
    finally:
        for course in courses:
            course.stop()
        deadline = time.monotonic() + _STOP_SECONDS
        for course in courses:
            course.join(max(0.0, deadline - time.monotonic()))


def _clean_up(troubles_made: list[Trouble], stopping: threading.Event) -> bool:
    """Undo what a killed process left, and clear all requests; False: stopped before that."""
    while not stopping.is_set():
        try:
            for trouble in troubles_made:
                trouble.end()
            with orm_connection():
                ensure_rules(troubles_made)
                for trouble in troubles_made:
                    troubles.request(trouble.name, False, MAKER)
                    troubles.report_state(trouble.name, troubles.TroubleState.OFF)
            return True
        except (psycopg.Error, StoreError) as error:
            log.warning("waiting for the shop and the store: %s", one_line(error))
            stopping.wait(2.0)
    return False


def _follow_requests(courses: list[Course], stopping: threading.Event) -> None:
    alive_at = 0.0
    while not stopping.wait(_POLL_SECONDS):
        try:
            with orm_connection():
                wanted_names = troubles.wanted()
                if time.monotonic() - alive_at > _ALIVE_SECONDS:
                    troubles.report_alive()
                    alive_at = time.monotonic()
        except StoreError as error:
            log.warning("the store does not answer: %s", one_line(error))
            stopping.wait(2.0)
            continue
        for course in courses:
            (course.wanted.set if course.trouble.name in wanted_names else course.wanted.clear)()
