"""Job processes archive the due transactions, count them, and go on where one stopped."""

import threading
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from replview.features.archive import job as archiving
from replview.parquet.slices import Slice
from replview.parquet.writing import exporting, manifests
from replview.parquet.writing.targets import Target
from replview.store import instance_settings
from replview.store.connecting import store_conninfo
from replview.store.models import ArchiveMark, SlotEvent, Transaction
from replview.store.retention import archive
from tests.support.archive_here import archive_here
from tests.support.digests import digests
from tests.support.history_rows import WHEN, History, insert

pytestmark = pytest.mark.slow


@pytest.fixture
def archived(history: History, tmp_path: Path) -> Path:
    """The folder that the history of three transactions is to go to."""
    Transaction.objects.update(stored_at=WHEN)
    instance_settings.write("archive.target", str(tmp_path / "archive"), "somebody")
    return tmp_path / "archive"


@pytest.fixture
def within(monkeypatch) -> None:
    """Archive in this process, and compact nothing."""
    archive_here(monkeypatch)
    monkeypatch.setattr(archiving, "compact", lambda stop: None)


def work_off_once() -> bool:
    step = archive.next_step()
    assert step is not None
    return archiving.carry_out(step, threading.Event())


def work_off() -> int:
    return archiving.work_off(threading.Event())


def rows(root: Path, dataset: str = "public.orders") -> list[dict[str, Any]]:
    folder = root / "shop" / "replview-1" / dataset
    return ds.dataset(folder, format="parquet", partitioning="hive").to_table().to_pylist()


def test_a_job_process_writes_it_and_the_mark_moves(archived: Path) -> None:
    archiving.KIND.serve()
    [thread] = [each for each in threading.enumerate() if each.name == "archive"]
    archiving.KIND.serve()  # while it is at it: nothing more begins
    thread.join(60)
    assert work_off() == 0
    mark = ArchiveMark.objects.get()
    assert (mark.through_seq, mark.transactions, mark.changes) == (3, 3, 4)
    assert (mark.problem, mark.through_time) == ("", WHEN)
    assert mark.size_bytes == sum(
        path.stat().st_size for path in archived.rglob("*.parquet") if path.is_file()
    )
    kinds = [(row["id"], row["_change_type"], row["_actor"]) for row in rows(archived)]
    assert kinds == [("1", "insert", None), ("2", "insert", None), ("3", "insert", "alice"),
                     ("3", "update_postimage", "bob")]  # fmt: skip
    assert [row["commit_seq"] for row in rows(archived, "transactions")] == [1, 2, 3]
    assert "counted 3 transactions" in archiving.log_path().read_text()


def test_after_a_crash_the_same_slice_is_written_once(
    archived: Path, within: None, history: History, monkeypatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: Any) -> None:
        raise Killed

    # After the files, before the manifest; then after all, before the mark.
    with monkeypatch.context() as patch:
        patch.setattr(manifests, "seal", killed)
        with pytest.raises(Killed):
            work_off()
    left = {path: path.stat().st_mtime_ns for path in archived.rglob("*.parquet")}
    assert len(left) == 2
    assert ArchiveMark.objects.get().through_seq == 0
    # More has become due: the slice that was begun keeps its ends.
    history.commit(insert(4))
    Transaction.objects.update(stored_at=WHEN)
    with monkeypatch.context() as patch:
        patch.setattr(archive, "move", killed)
        with pytest.raises(Killed):
            work_off()
    whole = digests(archived)
    assert {path: path.stat().st_mtime_ns for path in archived.rglob("*.parquet")} == left

    assert work_off() == 2
    assert {name: digest for name, digest in digests(archived).items() if name in whole
            and "_manifest.json" not in name and "_schema" not in name} == {
        name: digest for name, digest in whole.items()
        if "_manifest.json" not in name and "_schema" not in name
    }  # fmt: skip
    assert ArchiveMark.objects.get().through_seq == 4
    assert [row["id"] for row in rows(archived)] == ["1", "2", "3", "3", "4"]
    assert [row["commit_seq"] for row in rows(archived, "transactions")] == [1, 2, 3, 4]


def test_what_the_files_do_not_hold_keeps_the_mark_where_it_is(
    archived: Path, within: None, history: History, monkeypatch
) -> None:
    # A row that its transaction does not count never gets into a file.
    from replview.store.models import Change

    first = Transaction.objects.get(commit_seq=1)
    for change in Change.objects.filter(transaction_id=first.pk, seq=2):
        change.seq = 3
        Change.objects.bulk_create([change])
    monkeypatch.setattr(
        "replview.parquet.writing.files.check_rows", lambda changes, part: None
    )  # the writer's own look
    Change.objects.filter(transaction_id=first.pk, seq=2).update(relation_id=None)

    assert work_off() == 0
    mark = ArchiveMark.objects.get()
    assert mark.through_seq == 0
    assert "the archive's files have" in mark.problem
    assert "commit_seq 1 to 3" in mark.problem
    assert SlotEvent.objects.get(kind="archive").message.startswith("Archiving failed")


def test_a_target_that_cannot_be_written_is_said_and_tried_again(
    archived: Path, within: None
) -> None:
    archived.write_text("a file stands there")
    assert work_off() == 0
    mark = ArchiveMark.objects.get()
    assert mark.problem == "a part of the path is a file"
    assert "folders" in mark.remedy
    archived.unlink()
    assert work_off() == 0, "a while later"
    ArchiveMark.objects.update(checked_at=None)
    assert work_off() == 1
    assert ArchiveMark.objects.get().problem == ""


def test_what_is_counted_is_what_stands_there(archived: Path, within: None, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(archive, "move", lambda *_: False)
        assert work_off_once() is False
    [file] = archived.rglob("public.orders/*/*.parquet")
    size = file.stat().st_size
    file.write_bytes(b"x" * size)
    assert work_off_once() is False
    assert "missing or not as it was written" in ArchiveMark.objects.get().problem
    assert ArchiveMark.objects.get().through_seq == 0
    # One that is gone is written again.
    file.unlink()
    ArchiveMark.objects.update(checked_at=None)
    assert work_off() == 1
    assert file.stat().st_size == size


def test_slices_of_somebody_else_are_none_of_the_archive(
    archived: Path, within: None, history: History
) -> None:
    part = Slice(
        source="shop", slot="replview", incarnation_id=history.incarnation.pk, incarnation=1,
        after_seq=0, through_seq=2, operations=("insert",),
    )  # fmt: skip
    exporting.export(part, Target.of(str(archived)), dsn=store_conninfo())
    assert work_off() == 0
    assert "another slice of the same transactions" in ArchiveMark.objects.get().problem


def test_slices_that_spark_wrote_are_taken_as_its_own(
    archived: Path, within: None, history: History
) -> None:
    part = Slice(
        source="shop", slot="replview", incarnation_id=history.incarnation.pk, incarnation=1,
        after_seq=0, through_seq=2,
    )  # fmt: skip
    exporting.export(part, Target.of(str(archived)), dsn=store_conninfo())
    assert work_off() == 2
    assert ArchiveMark.objects.get().through_seq == 3
    assert [row["id"] for row in rows(archived)] == ["1", "2", "3", "3"]


def test_only_one_archives(archived: Path, within: None) -> None:
    import psycopg

    with psycopg.connect(store_conninfo(), autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [archive._LOCK])
        assert work_off() == 0
        other.execute("SELECT pg_advisory_unlock_all()")
    assert work_off() == 1
