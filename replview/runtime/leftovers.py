"""What a stack that was killed left running: found without doubt, and ended.

Normally nothing: supervisord ends with the command that started it, and its programs with it.
Only when both were killed do programs live on.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

#: Set in the environment of every supervised process, to the data folder: its mark.
MARK = "REPLVIEW_SUPERVISED"


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
    """Ask a process to end, and after a while make it."""
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
