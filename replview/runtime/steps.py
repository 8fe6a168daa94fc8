"""What happens once while a stack starts: modules run to their end, a page waited for."""

import http.client
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from replview.runtime.problems import StackProblem, Stopped
from replview.runtime.supervisor import CODE_FOLDER


def run_module(
    module: str,
    argument: str,
    *,
    environment: Mapping[str, str],
    logs: Path,
    stopping: threading.Event,
) -> None:
    """Run a module to its end, or until asked to stop; raise with the last it said.

    In a session of its own: Ctrl-C in the terminal is ours to pass on.
    """
    log = logs / f"{module.rpartition('.')[2]}-{argument.strip('-')}.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module, argument],
            cwd=CODE_FOLDER,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    while process.poll() is None:
        if stopping.wait(0.05):
            process.terminate()
            process.wait()
            raise Stopped
    if process.returncode:
        last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["no output"]
        raise StackProblem(f"{module} {argument} failed: {last[0]}", f"Its log is {log}")


def page_answers(host: str, port: int) -> bool:
    """Whether a page comes, be it a redirection to the login."""
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
