"""A web server on a store that may be crashed, and somebody who may sign in."""

import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from replview.runtime.machine import free_port
from tests.support.crash_stores import ROOT, CrashStore

USER, PASSWORD = "watcher", "watcher-password"


class WebServer:
    """uvicorn, killed and started again on the same port; a context manager."""

    def __init__(self, store: CrashStore, redis_url: str, folder: Path) -> None:
        self.port = free_port(None)
        self.url = f"http://127.0.0.1:{self.port}"
        self._environment = {
            **store.environment,
            "REPLVIEW_REDIS_URL": redis_url,
            "REPLVIEW_DATA": str(folder),
            "REPLVIEW_DEBUG": "1",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "WebServer":
        subprocess.run(
            [sys.executable, "manage.py", "createsuperuser", "--noinput", "--email", "a@b.example"],
            cwd=ROOT,
            env={
                **self._environment,
                "DJANGO_SUPERUSER_USERNAME": USER,
                "DJANGO_SUPERUSER_PASSWORD": PASSWORD,
            },
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=120,
        )
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it and wait for its first answer."""
        command = [sys.executable, "-m", "uvicorn", "replview.asgi:application"]
        self._process = subprocess.Popen(
            [*command, "--port", str(self.port), "--log-level", "warning", "--lifespan", "off"],
            cwd=ROOT,
            env=self._environment,
        )
        until = time.monotonic() + 90
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(f"{self.url}/login/", timeout=5):
                    return
            except OSError:
                time.sleep(0.1)
        raise AssertionError("uvicorn did not answer")

    def kill(self) -> None:
        """``kill -9``, with browsers attached."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
