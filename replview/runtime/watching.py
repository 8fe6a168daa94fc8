"""What happens to running processes, as sentences: who ended, why, and what was done."""

from collections.abc import Iterator, Sequence

from replview.runtime.supervisor import ProgramState, Supervisor


class Watch:
    """Compares each look at the processes with the one before."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._seen: dict[str, tuple[str, int]] = {}

    def changes(self) -> Iterator[str]:
        """A line for each process that ended or came back since the last look, and its log."""
        for now in self._supervisor.states():
            before = self._seen.get(now.name)
            self._seen[now.name] = (now.state, now.pid)
            if before is not None and before != self._seen[now.name]:
                yield from self._lines(before, now)

    def _lines(self, before: tuple[str, int], now: ProgramState) -> Sequence[str]:
        old_state, old_pid = before
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
