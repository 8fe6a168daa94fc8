"""A receiver in a process of its own, which a test may kill, freeze and start again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.crash_stores import ROOT, CrashStore
from tests.support.waiting import wait_for


class ReceiverProcess:
    """``tests.support.run_receiver`` for one slot; takes the slot whenever it is free."""

    def __init__(
        self,
        store: CrashStore,
        slot_id: int,
        owner: str,
        log: Path,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.owner = owner
        self.log = log
        with open(log, "ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.run_receiver", str(slot_id), owner],
                cwd=ROOT,
                env={**store.environment, **(environment or {})},
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        #: The start of the process, by the monotonic clock.
        self.started_at = time.monotonic()

    @property
    def running(self) -> bool:
        """Return True if the process is running."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def kill(self) -> None:
        """``kill -9``: it learns nothing of it."""
        self._process.kill()
        self._process.wait()

    def killed(self) -> None:
        """Wait until the process has killed itself, at a failpoint."""
        wait_for(lambda: not self.running, 60, self.said)
        assert self._process.returncode == -signal.SIGKILL, self.said()

    def pause(self) -> None:
        """SIGSTOP: it stands still and everything it holds stays held."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: it goes on as if nothing had been."""
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Stop it in an orderly way, if it still runs."""
        if not self.running:
            return
        self.resume()
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def said(self) -> str:
        """Return the process's log so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def memory_bytes(self) -> int:
        """Return the process's resident memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
