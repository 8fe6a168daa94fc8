"""This module runs a stack in the foreground of a command, from start to stop."""

import errno
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import FrameType

from django.conf import settings
from django.core.management.base import CommandError

from replview.runtime.machine import StartInterrupted
from replview.runtime.narration import Narration, StatusLine
from replview.runtime.stack import Stack

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_in_foreground(
    stack: Stack, *, check: Callable[[], None], welcome: Callable[[], None]
) -> None:
    """Run the stack until a signal; ``check`` runs before the start, ``welcome`` after it."""
    with stop_on_signals(stack.stopping, stack.say):
        try:
            check()
            stack.start()
            welcome()
            # The stack's own store, or the one from our settings, which may come from a file.
            url = stack.environment.get("REPLVIEW_STORE_URL") or settings.STORE_URL
            with closing(StatusLine(url)) as status:
                stack.run(status)
        except StartInterrupted:
            pass
        except OSError as error:
            raise CommandError(_in_one_line(error)) from error
        finally:
            stack.stop()


def _in_one_line(error: OSError) -> str:
    """Return what the system refused, with a remedy for a full disk or missing rights."""
    remedies = {
        errno.ENOSPC: "The disk is full: free some space, or choose another disk with --data",
        errno.EACCES: "It may be another user's: choose another folder with --data",
        errno.EPERM: "It may be another user's: choose another folder with --data",
    }
    cause = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
    return f"{cause}. {remedies[error.errno]}." if error.errno in remedies else cause


@contextmanager
def stop_on_signals(stopping: threading.Event, say: Narration) -> Iterator[None]:
    """Set the event at the first signal; report at later ones that stopping takes time.

    A second Ctrl-C must not interrupt the stop, which would leave orphans. SIGPIPE is ignored, so
    that writing to a closed pipe raises and ``replview demo | head`` stops in order too.
    """

    def ask(number: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            # The main thread may be writing, so the line is written from another one.
            threading.Thread(target=say.line, args=["  still stopping, a moment …"]).start()
        stopping.set()

    former_handlers = {number: signal.signal(number, ask) for number in _STOP_SIGNALS}
    former_handlers[signal.SIGPIPE] = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in former_handlers.items():
            signal.signal(number, handler)
