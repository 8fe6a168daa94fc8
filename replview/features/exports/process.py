"""A job process: started in a session of its own, followed by its lines, ended with all it started.

It gets what it needs from a file, the store's address from its environment alone. Each line of its
output is a JSON object, the last one says what became of it.
"""

import contextlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from django.conf import settings

from replview.spark.processes import JobProcess
from replview.store.connecting import store_conninfo
from replview.store.models import Export

MODULE = "replview.spark.export_job"
#: The variable of the environment that holds the store's address.
DSN_VARIABLE = "REPLVIEW_STORE_URL"
#: How long it may take until an ended job's last line is read.
_PATIENCE_SECONDS = 10.0


def folder() -> Path:
    """Where jobs' logs are kept."""
    return Path(settings.DATA_DIR) / "export-logs"


class Job:
    """One running job."""

    def __init__(self, row: Export) -> None:
        """Starts it. Raises ``OSError``."""
        folder().mkdir(parents=True, exist_ok=True)
        self.log_path = folder() / f"export-{row.pk}.log"
        self._order = order_path(row.pk)
        order = {
            "slice": row.slice,
            "target": row.target,
            "dsn_env": DSN_VARIABLE,
            "spark": row.spark or None,
            # Told to stop, it takes back what it wrote; killed, it leaves it to be gone on with.
            "keep": False,
        }
        self._order.write_bytes(orjson.dumps(order))
        self._job = JobProcess.start(
            [str(self._order)],
            log=self.log_path,
            module=MODULE,
            environment={DSN_VARIABLE: store_conninfo()},
        )
        #: The last line of progress.
        self.progress: Mapping[str, Any] = {}
        #: The last line of all.
        self.last: Mapping[str, Any] = {}
        self._reader = threading.Thread(target=self._read, name="export-lines", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the process, and of its group."""
        return self._job.process.pid

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within this time."""
        return self._job.wait(seconds) is not None

    def end(self, *, take_back: bool = False) -> None:
        """Kill it: finished files stay, and another goes on from them. With ``take_back`` it is
        told to delete what it wrote, and killed where it does not end.
        """
        self._job.end(at_once=not take_back)
        self._reader.join(_PATIENCE_SECONDS)
        self._order.unlink(missing_ok=True)

    @property
    def status(self) -> int | None:
        """The exit status; a negative one: the signal that ended it."""
        return self._job.process.returncode

    def _read(self) -> None:
        assert self._job.process.stdout is not None
        with self._job.process.stdout as lines:
            for line in lines:
                with contextlib.suppress(orjson.JSONDecodeError):
                    said = orjson.loads(line)
                    if not isinstance(said, dict):
                        continue
                    self.last = said
                    if "rows" in said:
                        self.progress = said


def order_path(export_id: int) -> Path:
    """What a job is to do; its name is in the job's command line."""
    return folder() / f"export-{export_id}.json"
