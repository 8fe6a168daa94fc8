"""Start a Spark job in a process of its own, wait for it, and end it with all its children.

Jobs never run in a process that Celery forked: two processes that share a JVM's socket get each
other's answers.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from replview.spark.scratch import make_scratch, temporary_files_in

#: Seconds that a job has to end after SIGTERM.
_PATIENCE_SECONDS = 20.0
#: Secrets that jobs do not need and that must not get into their logs.
KEPT_BACK = (
    "REPLVIEW_SECRET_KEY", "REPLVIEW_SECRET_KEY_FILE",
    "REPLVIEW_SECRET_KEYS_OLD", "REPLVIEW_SECRET_KEYS_OLD_FILE",
    "REPLVIEW_OIDC_CLIENT_SECRET", "REPLVIEW_OIDC_CLIENT_SECRET_FILE",
    "REPLVIEW_REDIS_URL", "REPLVIEW_REDIS_URL_FILE", "REPLVIEW_LOGIN_PASSWORD",
    # Jobs that need the store's address get it explicitly.
    "REPLVIEW_STORE_URL_FILE",
)  # fmt: skip


@dataclass(frozen=True)
class JobProcess:
    """A running ``python -m MODULE …``, with its results on its output and a log."""

    process: subprocess.Popen[bytes]
    log: Path
    #: The folder of the job's temporary files, which ``end`` deletes.
    scratch: Path

    @classmethod
    def start(
        cls,
        arguments: Sequence[str],
        *,
        log: Path,
        scratch: Path,
        module: str = "replview.spark",
        environment: Mapping[str, str] | None = None,
        output: int | IO[bytes] | None = subprocess.PIPE,
    ) -> "JobProcess":
        """Start a job. ``output`` receives its results: a pipe, a file, or None for our own output.

        The job's folder for temporary files is made below ``scratch``. Raises ``OSError``.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        kept = {key: value for key, value in os.environ.items() if key not in KEPT_BACK}
        # Make this package importable, whatever folder the job runs in.
        ours = str(Path(__file__).parent.parent.parent)
        path = os.pathsep.join(filter(None, (ours, kept.get("PYTHONPATH"))))
        folder, lock = make_scratch(scratch)
        variables = {**kept, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1",
                     **temporary_files_in(folder), **(environment or {})}  # fmt: skip
        # Append, so that the log of earlier runs stays readable. Close the lock here, so that it
        # ends with the job.
        with log.open("ab") as errors, lock:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                pass_fds=[lock.fileno()],
            )
        return cls(process, log, folder)

    def wait(self, seconds: float | None = None) -> int | None:
        """Return the exit status (negative: a signal); None if it still runs after ``seconds``."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self, *, at_once: bool = False) -> None:
        """Stop the job, and kill it if it does not end in time, or ``at_once``.

        Kill its children too (a JVM, its workers), and delete their temporary files.
        """
        if self.process.poll() is None:
            if not at_once:
                # Its JVM, which it needs to take back what was written, ends with it.
                self.process.terminate()
            if at_once or self.wait(_PATIENCE_SECONDS) is None:
                self._signal(signal.SIGKILL)
                self.process.wait()
        self._signal(signal.SIGKILL)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def problem(self) -> str:
        """Return the problem that the job reported, else the last line of its log."""
        with self.log.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - 65_536))
            lines = [line for line in log.read().decode(errors="replace").splitlines() if line]
        found = [line for line in lines if line.startswith("replview: ")]
        return found[-1].removeprefix("replview: ") if found else (lines or [""])[-1].strip()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)
