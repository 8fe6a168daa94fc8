"""The receivers' worker stopped by signal: it lives, holds its slot, and does nothing."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

from replview.demo.trouble.trouble import CannotMake, Trouble
from replview.store.models import AlertRule


class PausedReceiver(Trouble):
    """SIGSTOP: to the server its connection stands, to everybody else it is silent."""

    name = "paused-receiver"
    # The server would end a walsender that hears nothing for wal_sender_timeout.
    lasts_seconds = 180.0
    rules = (
        {"name": "demo: receiver silent for over 6 s", "kind": AlertRule.Kind.RECEIVER_DOWN,
         "severity": AlertRule.Severity.NOW, "threshold": 6.0},
    )  # fmt: skip

    def make(self) -> Iterator[bool]:
        """Stop every receivers' worker, also one that was started meanwhile."""
        if not self._workers():
            raise CannotMake("No receivers' worker runs that could be paused.")
        while True:
            for pid in self._workers():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            yield True

    def end(self) -> None:
        """Let them go on."""
        for pid in self._workers():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _workers(self) -> list[int]:
        return self.place.processes("receivers")
