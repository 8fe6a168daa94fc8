"""An archive that is written in the test's process: starting another takes a second."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from replview.features.archive import job as archiving
from replview.parquet.writing.targets import TargetProblem
from replview.spark import archive_job
from replview.spark.exit_statuses import DONE, FAILED
from replview.store.connecting import store_conninfo


def archive_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write slices in this process; what compacts the archive remains a process."""
    in_a_process = archiving.run_process

    def run(
        module: str, order: Mapping[str, object], stop: threading.Event
    ) -> tuple[int, Mapping[str, Any]]:
        if module != archiving.MODULE:
            return in_a_process(module, order, stop)
        try:
            return DONE, archive_job.write_slice(order, stop)
        except TargetProblem as error:
            return FAILED, {"problem": error.cause, "remedy": error.remedy}

    monkeypatch.setenv("REPLVIEW_STORE_URL", store_conninfo())
    monkeypatch.setattr(archiving, "run_process", run)
