"""Processes of a benchmark: each in a session of its own, ended with all its children.

A session of its own, so that Ctrl-C in the terminal reaches the benchmark alone, which then ends
them in order.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: A receiver takes up to 5 s to confirm its last position.
_END_SECONDS = 15
#: The longest of what runs to its end takes a minute and a half.
_RUN_SECONDS = 240


class Failed(Exception):
    """A process of the benchmark ended or did not come up; the text ends with what it said last."""


@contextmanager
def running(
    argv: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process from here to the end of the block; what it says goes to ``log``."""
    with open(log, "wb") as output:
        process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        end(process)


def module(name: str, *arguments: str) -> list[str]:
    """The command line that runs a Python module with this interpreter."""
    return [sys.executable, "-m", name, *arguments]


def run(argv: Sequence[str], environment: Mapping[str, str], log: Path) -> str:
    """Run a process to its end; what it wrote to standard output. Raises ``Failed``."""
    with running(argv, environment, log) as process:
        try:
            process.wait(_RUN_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"{' '.join(argv[:4])} takes over {_RUN_SECONDS} s: {said(log)}") from None
    if process.returncode:
        raise Failed(f"{' '.join(argv[1:4])} ended with {process.returncode}: {said(log)}")
    return log.read_text(errors="replace")


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the process, then SIGKILL to whatever is left of its group."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def said(log: Path) -> str:
    """The last lines of a log, on one line."""
    return " | ".join(log.read_text(errors="replace").strip().splitlines()[-5:]) or "nothing said"


def peak_rss_bytes(process: subprocess.Popen[bytes]) -> int:
    """The most memory the process has had so far. Source: proc(5), ``VmHWM``."""
    return _memory(process, "VmHWM:")


def rss_bytes(process: subprocess.Popen[bytes]) -> int:
    """The memory that the process has now. Source: proc(5), ``VmRSS``."""
    return _memory(process, "VmRSS:")


def _memory(process: subprocess.Popen[bytes], name: str) -> int:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise Failed(f"process {process.pid} has ended: no {name}")
