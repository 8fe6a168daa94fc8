"""An archive's job is killed in the middle, and again: what is there at last is there once."""

import hashlib
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.db import connection

from replview.features.archive import job as archiving
from replview.parquet import reading
from replview.parquet.writing.exporting import export
from replview.parquet.writing.targets import Target
from replview.runtime.failpoints import Point
from replview.spark.processes import JobProcess
from replview.store import instance_settings
from replview.store.connecting import store_conninfo
from replview.store.models import ArchiveMark, SlotEvent, Transaction
from replview.store.retention import deletion as retention
from replview.store.write.partitions import ensure_partitions
from tests.support.days import Days, days_ago, the, today
from tests.support.failpoints import environment, pause
from tests.support.history_rows import insert
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

#: The number of changes in each of the two transactions.
CHANGES = 2_000
_GROW = """
    INSERT INTO change SELECT (jsonb_populate_record(c, jsonb_build_object(
        'seq', n, 'new', jsonb_build_object('id', n::text, 'status', md5(n::text), 'note', null)
    ))).* FROM change c, generate_series(2, %(changes)s) n WHERE c.transaction_id = %(id)s
"""


@pytest.fixture
def root(transactional_db, settings, tmp_path: Path) -> Path:
    """Return the archive's folder, with two large transactions waiting to be archived."""
    settings.DATA_DIR = tmp_path
    connection.ensure_connection()
    ensure_partitions(connection.connection, days_ago(4).date(), today().date())
    history = Days()
    counts = {str(history.orders.relation_id): [CHANGES, 0, 0, 0]}
    for hour in (2, 3):
        made = history.on(days_ago(4, hour), insert(1), inserts=CHANGES, relations=counts)
        with connection.cursor() as cursor:
            cursor.execute(_GROW, {"id": made, "changes": CHANGES})
        Transaction.objects.filter(pk=made).update(stored_at=days_ago(4, hour))
    instance_settings.write("archive.target", str(tmp_path / "archive"), "somebody")
    return tmp_path / "archive"


@pytest.fixture
def jobs(monkeypatch) -> list[JobProcess]:
    """The archive's jobs, as they are started."""
    started: list[JobProcess] = []
    start = JobProcess.start

    def remembered(*words, **more) -> JobProcess:
        started.append(start(*words, **more))
        return started[-1]

    monkeypatch.setattr(archiving.JobProcess, "start", remembered)
    return started


def visible(root: Path) -> list[Path]:
    """The files that any engine reads."""
    return [p for p in sorted(root.rglob("*.parquet")) if not p.name.startswith(("_", "."))]


def half(root: Path) -> list[Path]:
    return list(root.rglob("_writing-*"))


def killed_when(sign: Callable[[], object], pid: Callable[[], int]) -> threading.Thread:
    """A thread that kills a process group as soon as the sign is there."""

    def kill() -> None:
        wait_for(sign, 180)
        os.killpg(pid(), signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


def digests(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in visible(root)
    }


def assert_there_once(root: Path, folder: str) -> None:
    places: list[tuple[int, int]] = []
    for path in visible(root / folder / "public.orders"):
        table = pq.read_table(path, columns=["_commit_version", "_seq"], partitioning=None)
        places += zip(*(column.to_pylist() for column in table.columns), strict=True)
    assert len(places) == 2 * CHANGES
    assert len({*places}) == 2 * CHANGES
    seqs: list[int] = []
    for path in visible(root / folder / "transactions"):
        seqs += pq.read_table(path, partitioning=None)["commit_seq"].to_pylist()
    assert sorted(seqs) == [1, 2]
    assert half(root) == []
    assert (root / folder / "_SUCCESS").exists()


def test_a_job_killed_in_the_middle_doubles_nothing_and_loses_nothing(
    root: Path, jobs: list[JobProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = tmp_path / "reached"
    # Killed in its first file; and in its last, when the other one is there.
    for action in ("kill", pause(reached, time=2)):
        with monkeypatch.context() as variables:
            for name, value in environment({Point.IN_EXPORT_FILE: action}).items():
                variables.setenv(name, value)
            if action != "kill":
                killed_when(lambda: reached.exists() and visible(root), lambda: jobs[1].process.pid)
            assert archiving.work_off(threading.Event()) == 0
        assert half(root)
        mark = ArchiveMark.objects.get()
        assert (mark.through_seq, mark.problem) == (0, "the job ended with status -9")
        # All visible files are whole, no manifest claims the slice, and the store deletes nothing.
        assert all(pq.read_metadata(path).num_rows for path in visible(root))
        assert not list(root.rglob("_SUCCESS"))
        assert [p for p in root.rglob("_manifests/*") if "unfinished" not in p.name] == []
        assert retention.drop_day(the(4)) is None
        assert "not archived at all: the job ended" in retention.why_kept(the(4))
        ArchiveMark.objects.update(checked_at=None)

    assert archiving.work_off(threading.Event()) == 1
    # The last one compacts what is there.
    assert len(jobs) == 4
    assert ArchiveMark.objects.get().changes == 2 * CHANGES
    assert_there_once(root, "shop/replview-1")
    said = SlotEvent.objects.filter(kind="archive").order_by("id").values_list("message", flat=True)
    assert [text.partition(":")[0] for text in said] == [
        "Archiving failed", "Archiving continues.",
    ]  # fmt: skip
    # Byte for byte what a run writes that nobody disturbs.
    with reading.connect(store_conninfo()) as store:
        part = reading.resolve(store, reading.SliceRequest(after_seq=0, through_seq=2))
    export(part, Target.of(str(tmp_path / "calm")), dsn=store_conninfo())
    assert digests(root) == digests(tmp_path / "calm")
    assert retention.drop_day(the(4)) is not None
