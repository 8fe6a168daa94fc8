"""This module defines points at which a test stops or fails a process; inactive in production.

``REPLVIEW_FAILPOINTS="before_copy=kill,in_export_file=pause:/tmp/reached@3"`` arms points of the
processes that are started with it. An armed point has one of these actions:

- ``kill``: the process ends at once, as by ``kill -9``
- ``raise``: ``FailpointReached`` is raised
- ``pause:FILE``: the file is created, and the thread waits until it is deleted

With ``@N`` the point acts only when it is reached for the Nth time. The variable is refused unless
``REPLVIEW_TEST=1`` or ``REPLVIEW_DEBUG=1`` is set. The module imports neither Django nor other
parts of replview, because Spark's processes have the points too.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path

_POLL_SECONDS = 0.02

#: The action of an armed point.
FailAction = Callable[[], object]


class Point(StrEnum):
    """The points at which a process can be stopped."""

    #: A batch with ended transactions is about to be stored; no store transaction has begun.
    BEFORE_STORE = "before_store"
    #: A batch with changes is about to be copied into the store.
    BEFORE_COPY = "before_copy"
    #: The changes of a batch are copied; the store transaction is not committed.
    AFTER_COPY = "after_copy"
    #: A batch with ended transactions is committed in the store, and not confirmed to the source.
    BEFORE_CONFIRM = "before_confirm"
    #: A baseline's snapshot is taken; its table is not locked yet.
    AFTER_SNAPSHOT = "after_snapshot"
    #: A row group of a Parquet file was written; the file does not have its final name yet.
    IN_EXPORT_FILE = "in_export_file"
    #: The files of a compaction are written; their journal is not.
    BEFORE_JOURNAL = "before_journal"
    #: A job's row is marked as claimed; this is not committed.
    IN_CLAIM = "in_claim"


class FailpointReached(Exception):
    """The error that a point raises if it is armed with ``raise``."""


#: The armed points; None: no point is armed.
actions: Mapping[Point, FailAction] | None = None


def failpoint(point: Point) -> None:
    """Run the action of the point, if it is armed; otherwise this only reads a global."""
    if actions is not None and (action := actions.get(point)) is not None:
        action()


def kill() -> None:
    """End this process at once, as by ``kill -9``."""
    os.kill(os.getpid(), signal.SIGKILL)


def _raise(point: Point) -> None:
    raise FailpointReached(point)


def _pause(file: Path) -> None:
    file.touch()
    while file.exists():
        time.sleep(_POLL_SECONDS)


class _AtTime:
    """An action that runs only when its point is reached for the Nth time."""

    def __init__(self, number: int, action: FailAction) -> None:
        self._left = number
        self._action = action
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self._left -= 1
            is_due = self._left == 0
        if is_due:
            self._action()


def read_failpoints(environ: Mapping[str, str]) -> dict[Point, FailAction] | None:
    """Return the points that the environment arms; None where it arms none.

    Raises ``ValueError`` for a point or action that does not exist, and where neither tests nor
    ``DEBUG`` allow failpoints.
    """
    text = environ.get("REPLVIEW_FAILPOINTS", "")
    if not text:
        return None
    if "1" not in (environ.get("REPLVIEW_TEST"), environ.get("REPLVIEW_DEBUG")):
        raise ValueError(
            "REPLVIEW_FAILPOINTS stops processes, and is for tests of replview only: unset it "
            "(tests set REPLVIEW_TEST=1 beside it)"
        )
    return dict(map(_read_failpoint, text.split(",")))


def _read_failpoint(text: str) -> tuple[Point, FailAction]:
    name, _, action_text = text.strip().partition("=")
    try:
        point = Point(name)
    except ValueError:
        known_points = ", ".join(Point)
        raise ValueError(
            f"REPLVIEW_FAILPOINTS: no point is named {name!r}: {known_points}"
        ) from None
    action_name, _, number = action_text.partition("@")
    kind, _, file = action_name.partition(":")
    action: FailAction
    if action_name == "kill":
        action = kill
    elif action_name == "raise":
        action = partial(_raise, point)
    elif kind == "pause" and file:
        action = partial(_pause, Path(file))
    else:
        raise ValueError(
            f"REPLVIEW_FAILPOINTS: {action_text!r} is not an action: kill, raise or pause:FILE"
        )
    if not number:
        return point, action
    if not number.isdecimal() or int(number) < 1:
        raise ValueError(f"REPLVIEW_FAILPOINTS: {number!r} is not a number from 1 on")
    return point, _AtTime(int(number), action)


actions = read_failpoints(os.environ)
