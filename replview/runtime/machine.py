"""What a stack finds on its machine: what keeps it from starting, free TCP ports on 127.0.0.1, and
what a killed one left running, found without doubt and ended.

Normally nothing: supervisord ends with the command that started it, and its programs with it.
Only when both were killed do programs live on.
"""

import os
import random
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

from replview.text.problem import CodedProblem

#: Set in the environment of every supervised process, to the data folder: its mark.
MARK = "REPLVIEW_SUPERVISED"


class StackProblem(CodedProblem):
    """A cause and what mends it; a command prints it and exits with status 1."""

    code_of_all = "stack"

    def __str__(self) -> str:
        return f"{self.cause}. {self.remedy}." if self.remedy else f"{self.cause}."


class Stopped(Exception):
    """The user asked to stop while the stack was still starting."""


#: Below the range from which Linux takes ports for outgoing connections, so that a port chosen
#: now is still free in a second, and the next time the same data is started.
_RANGE = range(20_000, 32_000)
#: In the log of a server whose port was taken between our look at it and its start.
TAKEN = ("Address already in use", "could not create any TCP/IP sockets")
#: Given out by this process: servers that are prepared side by side must not get the same.
_given: set[int] = set()


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen there now; connections still closing do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port(preferred: int | None = None) -> int:
    """The preferred port if it is free, else a random free one.

    Random rather than counted up: two stacks that start together seldom choose the same. It can
    still be taken before the server listens (``TAKEN``): choose again then.
    """
    if preferred is not None and port_is_free(preferred):
        return preferred
    for port in random.sample(_RANGE, k=200):
        if port not in _given and port_is_free(port):
            _given.add(port)
            return port
    raise OSError("no free TCP port found on 127.0.0.1 between 20000 and 32000")


def marked_processes(data_dir: Path) -> list[int]:
    """Every process of the stack on this data folder, except ourselves.

    The servers are not among them: PostgreSQL starts with an empty environment, Redis overwrites
    its own. Those have pid files.
    """
    mark = f"{MARK}={data_dir}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile, or somebody else's
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid() and is_running(pid)]


def is_running(pid: int, program: str = "") -> bool:
    """Whether a process lives, is no zombie, and (if asked) runs the program."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/stat").read_text()
        name, rest = status[status.index("(") + 1 :].rsplit(") ", 1)
        return rest[0] != "Z" and program in ("", name)
    return False


def end_process(pid: int, patience_seconds: float = 20) -> None:
    """Ask a process to end, and kill it if it does not end in time."""
    for sign, seconds in ((signal.SIGTERM, patience_seconds), (signal.SIGKILL, 5.0)):
        with suppress(ProcessLookupError):
            os.kill(pid, sign)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not is_running(pid):
                return
            time.sleep(0.05)


def end_marked_processes(data_dir: Path, supervisor_pid: int | None) -> int:
    """End what is left of a stack, its supervisord first: it would start the others again."""
    left = marked_processes(data_dir)
    if supervisor_pid in left:
        end_process(supervisor_pid)  # stops its programs in their order
    for pid in marked_processes(data_dir):
        end_process(pid, patience_seconds=5)
    return len(left)
