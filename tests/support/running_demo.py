"""``replview demo`` as a user runs it: a process with its own output, signals and exit status."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from replview.runtime.machine import free_port, is_running
from tests.support.processes import processes_naming

_CODE = Path(__file__).parents[2]


class RunningDemo:
    """One run of the command on a data folder; leaving the context makes sure it is over."""

    def __init__(self, data: Path, *options: str, port: int | None = None) -> None:
        self.data = data
        self.port = port or free_port()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("REPLVIEW_")}
        command = ["demo", "--data", str(data), "--port", str(self.port), *options]
        self.process = subprocess.Popen(
            [sys.executable, str(_CODE / "manage.py"), *command],
            cwd=_CODE,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._said: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> "RunningDemo":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(timeout=60)
        self._reader.join()

    @property
    def output(self) -> str:
        """All it has said so far."""
        return "".join(self._said)

    def wait_for(self, text: str, seconds: float = 240) -> None:
        """Return when it has said this."""
        deadline = time.monotonic() + seconds
        while text not in self.output:
            assert self.process.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            time.sleep(0.05)

    def end_with(self, signal_number: int, seconds: float = 15) -> int:
        """Send a signal and return the exit status it leads to."""
        self.process.send_signal(signal_number)
        status = self.process.wait(timeout=seconds)
        self._reader.join()
        return status

    def server_pids(self) -> list[int]:
        """The processes of both clusters and of Redis."""
        pids = []
        for name in ("store/postmaster.pid", "source/postmaster.pid", "redis/redis.pid"):
            pids.append(int((self.data / name).read_text().splitlines()[0]))
        return pids

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            while text := stream.read(1):
                self._said.append(text)


def wait_until_over(data: Path, pids: list[int], seconds: float = 30) -> None:
    """Return when no process names the folder and none of these lives."""
    deadline = time.monotonic() + seconds
    while (left := processes_naming(data)) or any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
