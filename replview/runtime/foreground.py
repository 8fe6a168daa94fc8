"""A stack in the foreground of a command: started, spoken of, run, stopped, errors as one line."""

import errno
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import FrameType

from django.conf import settings
from django.core.management.base import CommandError

from replview.runtime.machine import Stopped
from replview.runtime.narration import Narration, StatusLine
from replview.runtime.stack import Stack

_ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_in_foreground(
    stack: Stack, *, check: Callable[[], None], welcome: Callable[[], None]
) -> None:
    """Run the stack until a signal; ``check`` comes before it starts, ``welcome`` after."""
    with stop_on_signals(stack.stopping, stack.say):
        try:
            check()
            stack.start()
            welcome()
            # Ours when we were started with one, maybe as a file; else what the stack brought.
            url = stack.environment.get("REPLVIEW_STORE_URL") or settings.STORE_URL
            with closing(StatusLine(url)) as status:
                stack.run(status)
        except Stopped:
            pass
        except OSError as error:
            raise CommandError(_in_one_line(error)) from error
        finally:
            stack.stop()


def _in_one_line(error: OSError) -> str:
    """What the system refused; where the disk is full or a file another user's, the remedy."""
    remedies = {
        errno.ENOSPC: "The disk is full: free some space, or choose another disk with --data",
        errno.EACCES: "It may be another user's: choose another folder with --data",
        errno.EPERM: "It may be another user's: choose another folder with --data",
    }
    what = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
    return f"{what}. {remedies[error.errno]}." if error.errno in remedies else what


@contextmanager
def stop_on_signals(stopping: threading.Event, say: Narration) -> Iterator[None]:
    """Set the event at the first signal; say at later ones that stopping takes its time.

    A second Ctrl-C must not cut the first one's work short: it would leave orphans.
    A closed pipe is left to who writes to it, so that ``replview demo | head`` stops in order too.
    """

    def ask(number: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            # In another thread: the signal may have come while the main one was writing.
            threading.Thread(target=say.line, args=["  still stopping, a moment …"]).start()
        stopping.set()

    before = {number: signal.signal(number, ask) for number in _ASKING}
    before[signal.SIGPIPE] = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
