"""Ctrl-C, SIGTERM and a closed terminal: all ask for the same orderly end, once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from replview.runtime.narration import Narration

_ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
