"""A standalone cluster of Spark for tests: a master and two workers on this machine."""

import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark
import pytest

from replview.runtime.machine import free_port
from tests.support.waiting import wait_for

_PACKAGE = "org.apache.spark.deploy"
_WORKERS = 2
#: Memory of a worker; an executor takes all of it by default.
_WORKER_MEMORY = "1g"
_END_SECONDS = 30


@dataclass(frozen=True)
class SparkCluster:
    """A running cluster, whose executors are processes of their own."""

    url: str
    #: What a driver's process needs: its executors' Python finds no replview on its path.
    environment: dict[str, str]
    _workers: tuple[subprocess.Popen[bytes], ...]

    def executors(self) -> list[psutil.Process]:
        """Return the executors that run, the oldest first."""
        found = []
        for worker in self._workers:
            for child in psutil.Process(worker.pid).children():
                # Some end meanwhile.
                with suppress(psutil.Error):
                    if "CoarseGrainedExecutorBackend" in " ".join(child.cmdline()):
                        found.append(child)
        return sorted(found, key=lambda executor: executor.create_time())

    def executor_at(self, port: int) -> psutil.Process:
        """Return the executor whose Python has a connection from this port."""
        for executor in self.executors():
            with suppress(psutil.Error):
                for process in executor.children(recursive=True):
                    if any(each.laddr[1] == port for each in process.net_connections("tcp")):
                        return executor
        raise AssertionError("no executor reads")


@contextmanager
def spark_cluster() -> Iterator[SparkCluster]:
    """Start a cluster; stop it and remove its files when the block ends."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java (Debian's openjdk-17-jre-headless)")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as running:
        folder, port = Path(name), free_port()
        environment = {
            key: text
            for key, text in os.environ.items()
            if not key.startswith(("PYTHON", "DJANGO", "REPLVIEW", "SPARK_REMOTE"))
        }
        environment |= {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(_python_without_replview(folder / "python")),
        }
        url = f"spark://127.0.0.1:{port}"
        master = ["Master", "--port", str(port)]
        running.enter_context(_daemon(master, folder / "master", environment, "elected leader"))
        limits = ["--cores", "1", "--memory", _WORKER_MEMORY]
        workers = [
            running.enter_context(
                _daemon(
                    ["Worker", *limits, "--work-dir", str(folder / f"work-{number}"), url],
                    folder / f"worker-{number}", environment, "Successfully registered with master",
                )
            )
            for number in range(_WORKERS)
        ]  # fmt: skip
        yield SparkCluster(url, environment, tuple(workers))


@contextmanager
def _daemon(
    words: list[str], folder: Path, environment: dict[str, str], ready: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a master or a worker, and wait until its log says that it is ready."""
    folder.mkdir()
    name, *options = words
    program = Path(pyspark.__path__[0], "bin", "spark-class")
    listening = ["--host", "127.0.0.1", "--webui-port", "0"]
    daemon = {
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_LOCAL_DIRS": str(folder),
    }
    log = folder / "log"
    with log.open("wb") as lines:
        process = subprocess.Popen(
            [program, f"{_PACKAGE}.{name.lower()}.{name}", *listening, *options],
            env=environment | daemon, cwd=folder, stdout=lines, stderr=lines,
            start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(lambda: ready in log.read_text() or process.poll() is not None, 120, log.read_text)
        assert process.poll() is None, log.read_text()
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        # The executors of a worker, too.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _python_without_replview(folder: Path) -> Path:
    """Make a Python that has the packages of this one, but not replview."""
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    # Files of this form are not read in the folder that is named, so nothing leads to the sources.
    (packages / "tests.pth").write_text(sysconfig.get_path("purelib"))
    python = folder / "bin" / "python"
    found = subprocess.run([python, "-c", "import replview"], capture_output=True, cwd=folder)
    assert b"No module named 'replview'" in found.stderr
    return python
