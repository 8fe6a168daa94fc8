"""This module examines the machine of a stack: free ports, and processes left by a killed one.

Normally nothing is left: supervisord ends with the command that started it, and stops its programs.
Programs live on only if both were killed.
"""

import os
import random
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

from replview.text.problem import CodedProblem

#: The variable that marks every supervised process; its value is the data folder.
MARK = "REPLVIEW_SUPERVISED"
#: Ports below those that Linux uses for outgoing connections, so that a port chosen now is likely
#: to be free when the server starts, and at the next start of the same data.
_PORT_RANGE = range(20_000, 32_000)
#: Messages of a server whose port was taken after we found it free.
TAKEN = ("Address already in use", "could not create any TCP/IP sockets")
#: Ports chosen by this process: servers that are prepared in parallel need different ones.
_given_ports: set[int] = set()


class StackProblem(CodedProblem):
    """A cause and a remedy; a command prints both and exits with status 1."""

    code_of_all = "stack"

    def __str__(self) -> str:
        return f"{self.cause}. {self.remedy}." if self.remedy else f"{self.cause}."


class StartInterrupted(Exception):
    """The user asked to stop while the stack was still starting."""


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether a server could listen on the port; closing connections do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port(preferred: int | None = None) -> int:
    """Return the preferred port if it is free, else a random free one.

    A random port makes it unlikely that two stacks that start together choose the same. The port
    can still be taken before the server listens (``TAKEN``); then choose again.
    """
    if preferred is not None and port_is_free(preferred):
        return preferred
    for port in random.sample(_PORT_RANGE, k=200):
        if port not in _given_ports and port_is_free(port):
            _given_ports.add(port)
            return port
    raise OSError("no free TCP port found on 127.0.0.1 between 20000 and 32000")


def marked_processes(data_dir: Path) -> list[int]:
    """Return every process of the stack on this data folder, except ourselves.

    The servers are not found: PostgreSQL starts with an empty environment, and Redis overwrites its
    own. They have pid files.
    """
    mark = f"{MARK}={data_dir}".encode()
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        # The process may have ended, or belong to another user.
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                pids.append(int(folder.name))
    return [pid for pid in pids if pid != os.getpid() and is_running(pid)]


def is_running(pid: int, program: str = "") -> bool:
    """Return whether a process lives, is no zombie, and (if given) runs the program."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/stat").read_text()
        name, fields = status[status.index("(") + 1 :].rsplit(") ", 1)
        return fields[0] != "Z" and program in ("", name)
    return False


def end_process(pid: int, patience_seconds: float = 20) -> None:
    """Send SIGTERM to a process, and SIGKILL if it does not end in time."""
    for sign, seconds in ((signal.SIGTERM, patience_seconds), (signal.SIGKILL, 5.0)):
        with suppress(ProcessLookupError):
            os.kill(pid, sign)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not is_running(pid):
                return
            time.sleep(0.05)


def end_marked_processes(data_dir: Path, supervisor_pid: int | None) -> int:
    """End the remaining processes of a stack, and return their number.

    supervisord is first, as it would restart the others.
    """
    remaining_pids = marked_processes(data_dir)
    if supervisor_pid in remaining_pids:
        # supervisord stops its programs in their order.
        end_process(supervisor_pid)
    for pid in marked_processes(data_dir):
        end_process(pid, patience_seconds=5)
    return len(remaining_pids)
