"""This module runs supervisord as the process manager, and asks it about processes.

supervisord runs as our child in its own session, so that Ctrl-C in the terminal reaches only us and
programs end in our order. Secrets are in its environment, which programs inherit, and in no file.

Source: Supervisor documentation, "Configuration File" and "XML-RPC API Documentation".
"""

import os
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xmlrpc.client import Fault, ServerProxy

import replview
from replview.runtime.data_folder import DataFolder
from replview.runtime.machine import MARK, StackProblem

#: The folder from which the package ``replview`` is imported.
CODE_FOLDER = Path(replview.__file__).parent.parent

_START_SECONDS = 20
_GONE_STATES = {"STOPPED", "EXITED", "FATAL", "UNKNOWN"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that supervisord runs."""

    name: str
    argv: Sequence[str]
    #: A low priority starts first and stops last, also when supervisord ends.
    priority: int
    stop_signal: str = "TERM"
    #: The account to run as; None is ours.
    user: str | None = None
    folder: Path = CODE_FOLDER
    #: Seconds before SIGKILL: a receiver needs up to 5 to confirm its last position.
    stop_wait_seconds: int = 20


@dataclass(frozen=True, slots=True)
class ProgramState:
    """A program's state in supervisord's words; ``pid`` is 0 when it does not run."""

    name: str
    state: str
    pid: int
    spawn_error: str

    @property
    def is_gone(self) -> bool:
        """Return whether the program does not run and is not about to."""
        return self.state in _GONE_STATES

    @property
    def is_given_up(self) -> bool:
        """Return whether the program ended and will not be restarted; EXITED ones will be."""
        return self.state in _GONE_STATES - {"EXITED"}


class Supervisor:
    """A supervisord and its programs. Use it from one thread."""

    def __init__(
        self, folder: DataFolder, programs: Sequence[Program], environment: Mapping[str, str]
    ) -> None:
        self.folder = folder
        self.programs = programs
        self.environment = {**environment, MARK: str(folder.path)}
        self._process: subprocess.Popen[bytes] | None = None
        self._login = ("replview", secrets.token_urlsafe(16))
        self._socket = Path()

    def launch(self) -> None:
        """Start supervisord, with no program running yet."""
        self._socket = self.folder.socket_path()
        configuration, output_path = (
            self.folder.run / "supervisord.conf",
            self.folder.logs / "supervisord.out",
        )
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(configuration, flags, 0o600), "w") as file:
            file.write(self._configuration())
        with open(output_path, "wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "replview.runtime.supervised", str(os.getpid()),
                 "--nodaemon", "--configuration", str(configuration)],
                cwd=CODE_FOLDER,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                first_line = " ".join(output_path.read_text().strip().splitlines()[:1])
                raise StackProblem(f"supervisord did not start: {first_line}")
            time.sleep(0.03)

    def start(self, names: Iterable[str]) -> None:
        """Start programs, without waiting until they are ready."""
        for name in names:
            self._ask("startProcess", name, False)

    def stop(self, names: Iterable[str]) -> None:
        """Stop these programs in parallel and wait until they are gone."""
        stop_names = {program.name for program in self.programs} & set(names)
        for name in stop_names:
            try:
                self._ask("stopProcess", name, False)
            except Fault as fault:
                if "NOT_RUNNING" not in fault.faultString:
                    raise
        while any(state.name in stop_names and not state.is_gone for state in self.states()):
            time.sleep(0.05)

    def states(self) -> list[ProgramState]:
        """Return the states of all programs."""
        return [
            ProgramState(
                name=info["name"],
                state=info["statename"],
                pid=info["pid"],
                spawn_error=info["spawnerr"],
            )
            for info in self._ask("getAllProcessInfo")
        ]

    def end(self) -> None:
        """End supervisord and the programs that still run, in order of priority."""
        if self._process is None:
            return
        try:
            # supervisord handles the call at once, but a signal only with its next tick.
            self._ask("shutdown")
        except (OSError, Fault):
            self._process.terminate()
        # Every program may take its whole stop_wait_seconds before it is killed.
        self._process.wait(timeout=sum(program.stop_wait_seconds for program in self.programs) + 5)
        self._process = None

    def is_alive(self) -> bool:
        """Return whether supervisord runs."""
        return self._process is not None and self._process.poll() is None

    def log_path(self, name: str) -> Path:
        """Return the log file of a program."""
        return self.folder.logs / f"{name}.log"

    def last_lines(self, name: str, count: int = 5) -> list[str]:
        """Return the last lines of the log of a program; empty where it cannot be read."""
        try:
            with open(self.log_path(name), "rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - 8192))
                return log.read().decode(errors="replace").splitlines()[-count:]
        except OSError:
            return []

    def _answers(self) -> bool:
        try:
            self._ask("getState")
        except OSError:
            return False
        return True

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of supervisord's XML-RPC interface over the Unix socket."""
        from supervisor.xmlrpc import SupervisorTransport

        transport = SupervisorTransport(*self._login, f"unix://{self._socket}")
        try:
            proxy = ServerProxy("http://127.0.0.1", transport=transport)
            return getattr(proxy.supervisor, method)(*arguments)
        finally:
            transport.close()

    def _configuration(self) -> str:
        logs, run = self.folder.logs, self.folder.run
        main = {
            "logfile": logs / "supervisord.log",
            "logfile_maxbytes": "1MB",
            "logfile_backups": 1,
            "pidfile": run / "supervisord.pid",
            "childlogdir": logs,
            "silent": "true",
            "umask": "077",
        }
        if os.geteuid() == 0:
            # Without it, supervisord warns that it runs as root.
            main["user"] = "root"
        username, password = self._login
        sections: dict[str, Mapping[str, object]] = {
            "supervisord": main,
            "unix_http_server": {
                "file": self._socket, "chmod": "0700", "username": username, "password": password,
            },
            "rpcinterface:supervisor": {
                "supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"
            },
        }  # fmt: skip
        for program in self.programs:
            sections[f"program:{program.name}"] = self._program_section(program)
        return "\n".join(_section(name, options) for name, options in sections.items())

    def _program_section(self, program: Program) -> dict[str, object]:
        return {
            "command": shlex.join(program.argv),
            "directory": program.folder,
            "priority": program.priority,
            "autostart": "false",
            "autorestart": "true",
            "startsecs": 1,
            "startretries": 10,
            "stopsignal": program.stop_signal,
            "stopwaitsecs": program.stop_wait_seconds,
            "killasgroup": "true",
            "redirect_stderr": "true",
            "stdout_logfile": self.log_path(program.name),
            "stdout_logfile_maxbytes": "10MB",
            "stdout_logfile_backups": 1,
            **({"user": program.user} if program.user else {}),
        }


def _section(name: str, options: Mapping[str, object]) -> str:
    """Return one section, with percent signs escaped, which begin expressions of supervisord."""
    lines = [f"{key}={str(value).replace('%', '%%')}" for key, value in options.items()]
    return "\n".join([f"[{name}]", *lines, ""])


class ProcessWatch:
    """A watch compares the states of processes with those of the previous call."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._seen: dict[str, tuple[str, int]] = {}

    def changes(self) -> Iterator[str]:
        """Yield lines about each process that ended or restarted since the last call."""
        for now in self._supervisor.states():
            former = self._seen.get(now.name)
            self._seen[now.name] = (now.state, now.pid)
            if former is not None and former != self._seen[now.name]:
                yield from self._lines(former, now)

    def _lines(self, former: tuple[str, int], now: ProgramState) -> Sequence[str]:
        old_state, old_pid = former
        log = f"log: {self._supervisor.log_path(now.name)}"
        end = [f"    {line}" for line in self._supervisor.last_lines(now.name)]
        if now.state == "FATAL":
            return [f"{now.name} keeps ending and was given up. Its {log} ends:", *end]
        if now.state in ("EXITED", "BACKOFF") and old_state in ("RUNNING", "STARTING"):
            return [f"{now.name} (process {old_pid}) ended; it is started again. Its {log} ends:",
                    *end]  # fmt: skip
        if old_pid and now.pid and old_pid != now.pid:
            return [f"{now.name} (process {old_pid}) ended and was started again as process "
                    f"{now.pid}; {log}"]  # fmt: skip
        if now.state == "RUNNING" and old_state in ("EXITED", "BACKOFF", "FATAL"):
            return [f"{now.name} runs again as process {now.pid}"]
        return []
