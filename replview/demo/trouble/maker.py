"""Obeys the wishes: one course a trouble; cleans up before it begins and when it stops."""

import logging
import threading
import time

import psycopg
from django.db import Error as StoreError

from replview.demo.trouble.changes import (
    Flood,
    LongTransaction,
    PoisonChange,
    PreparedTransaction,
    SchemaChange,
)
from replview.demo.trouble.course import Course, ensure_rules
from replview.demo.trouble.place import Place, Trouble
from replview.demo.trouble.slots import IdleSlot, LostSlot, PausedReceiver
from replview.demo.workload.outage import one_line
from replview.store import demo_troubles as troubles
from replview.store.connecting import orm_connection

log = logging.getLogger("replview.demo.trouble")

KINDS: tuple[type[Trouble], ...] = (
    PausedReceiver,
    PreparedTransaction,
    LongTransaction,
    Flood,
    IdleSlot,
    LostSlot,
    SchemaChange,
    PoisonChange,
)
#: How often wishes are read, and how often a sign of life is given.
_LOOK_SECONDS, _ALIVE_SECONDS = 0.3, 2.0
#: For all of them to undo what they did; the process manager has more patience than that.
_STOP_SECONDS = 12.0


def run(place: Place, stopping: threading.Event) -> None:
    """Until told to stop. Nothing is left of any trouble then."""
    made = [kind(place) for kind in KINDS]
    if not _clean_up(made, stopping):
        return
    courses = [Course(trouble) for trouble in made]
    for course in courses:
        course.start()
    try:
        _obey(courses, stopping)
    finally:
        for course in courses:
            course.stop()
        deadline = time.monotonic() + _STOP_SECONDS
        for course in courses:
            course.join(max(0.0, deadline - time.monotonic()))


def _clean_up(made: list[Trouble], stopping: threading.Event) -> bool:
    """Undo what a killed process left, and forget what was wanted; False: told to stop first."""
    while not stopping.is_set():
        try:
            for trouble in made:
                trouble.end()
            with orm_connection():
                ensure_rules(made)
                for trouble in made:
                    troubles.wish(trouble.name, False, "the demo")
                    troubles.tell(trouble.name, troubles.State.OFF)
            return True
        except (psycopg.Error, StoreError) as error:
            log.warning("waiting for the shop and the store: %s", one_line(error))
            stopping.wait(2.0)
    return False


def _obey(courses: list[Course], stopping: threading.Event) -> None:
    alive_at = 0.0
    while not stopping.wait(_LOOK_SECONDS):
        try:
            with orm_connection():
                wanted = troubles.wanted()
                if time.monotonic() - alive_at > _ALIVE_SECONDS:
                    troubles.tell_alive()
                    alive_at = time.monotonic()
        except StoreError as error:
            log.warning("the store does not answer: %s", one_line(error))
            stopping.wait(2.0)
            continue
        for course in courses:
            (course.wanted.set if course.trouble.name in wanted else course.wanted.clear)()
