"""Several exports write into one folder at the same time."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from replview.features.exports.request import read_export_request
from replview.parquet.slices import Slice
from replview.parquet.writing import manifests
from replview.parquet.writing.exporting import Progress, export
from replview.parquet.writing.layout import UNFINISHED, incarnation_folder, slice_name
from replview.parquet.writing.problems import TargetProblem
from replview.parquet.writing.targets import Target
from replview.store.connecting import store_conninfo
from tests.features.exports.conftest import ids
from tests.support.history_rows import History, insert

pytestmark = pytest.mark.slow


@pytest.fixture
def whole(history: History) -> Slice:
    return read_export_request(history.slot, {}).slice


def test_success_is_not_written_over_the_mark_of_a_slice_that_begins(
    whole: Slice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, success = Target.of(str(tmp_path)), f"{incarnation_folder(whole)}/_SUCCESS"
    first, second = replace(whole, through_seq=2), replace(whole, after_seq=2)
    write_bytes, delete = Target.write_bytes, Target.delete

    def begin_before_it_is_written(self: Target, path: str, data: bytes) -> None:
        if path == success:
            manifests.mark_unfinished(self, second)
        write_bytes(self, path, data)

    def end_after_it_is_deleted(self: Target, path: str) -> None:
        delete(self, path)
        if path == success:
            manifests.seal(self, first, None)

    with monkeypatch.context() as patch:
        patch.setattr(Target, "write_bytes", begin_before_it_is_written)
        export(first, target, dsn=store_conninfo())
    assert target.size(success) is None
    manifests.seal(target, second, None)
    assert target.size(success) == 0
    with monkeypatch.context() as patch:
        patch.setattr(Target, "delete", end_after_it_is_deleted)
        manifests.mark_unfinished(target, second)
    assert target.size(success) is None


def begun_together(
    root: Path, slices: list[Slice], monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Export slices that all have their mark before one looks for the others' marks.

    Return the problem of each by its name; empty: it was written.
    """
    barrier, marked, write_bytes = threading.Barrier(len(slices)), set[str](), Target.write_bytes

    def write(self: Target, path: str, data: bytes) -> None:
        is_first = path.endswith(UNFINISHED) and path not in marked
        if is_first:
            # Each looks for marks once before it writes its own.
            marked.add(path)
            barrier.wait(60)
        write_bytes(self, path, data)
        if is_first:
            barrier.wait(60)

    def problem(part: Slice) -> str:
        try:
            export(part, Target.of(str(root)), dsn=store_conninfo())
        except TargetProblem as found:
            return found.cause
        return ""

    with monkeypatch.context() as patch, ThreadPoolExecutor() as threads:
        patch.setattr(Target, "write_bytes", write)
        return dict(zip(map(slice_name, slices), threads.map(problem, slices), strict=True))


def test_of_two_slices_that_begin_at_once_the_later_name_gives_way(
    whole: Slice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = sorted([replace(whole, through_seq=2), whole], key=slice_name)
    first, second = map(slice_name, slices)
    problems = begun_together(tmp_path, slices, monkeypatch)
    assert problems[first] == ""
    assert "its rows would be there twice" in problems[second]
    folder = incarnation_folder(whole)
    assert [path.stem for path in tmp_path.glob(f"{folder}/_manifests/*")] == [first]
    assert (tmp_path / folder / "_SUCCESS").exists()
    assert ids(tmp_path) == ["1", "2", "3"]


def test_a_slice_that_is_refused_leaves_no_mark(whole: Slice, tmp_path: Path) -> None:
    target = Target.of(str(tmp_path))
    written = export(replace(whole, through_seq=2), target, dsn=store_conninfo())
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with pytest.raises(TargetProblem, match="twice"):
        export(whole, target, dsn=store_conninfo())
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    # A file of a stranger is found after the plan.
    elsewhere = tmp_path / "x" / written.files[0]["path"]
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_bytes(b"no Parquet")
    with pytest.raises(TargetProblem, match="did not write"):
        export(written.slice, Target.of(str(tmp_path / "x")), dsn=store_conninfo())
    assert [path for path in (tmp_path / "x").rglob("*") if path.is_file()] == [elsewhere]


def test_a_file_of_transactions_is_no_tables_file(whole: Slice, tmp_path: Path) -> None:
    target = Target.of(str(tmp_path))
    written = export(whole, target, dsn=store_conninfo())
    by_kind = {file["kind"]: file["path"] for file in written.files}
    stranger = tmp_path / "x" / by_kind["table"]
    stranger.parent.mkdir(parents=True)
    stranger.write_bytes((tmp_path / by_kind["transactions"]).read_bytes())
    held = stranger.read_bytes()
    with pytest.raises(TargetProblem, match="did not write"):
        export(whole, Target.of(str(tmp_path / "x")), dsn=store_conninfo())
    assert stranger.read_bytes() == held


def test_a_schema_keeps_what_another_slice_published_meanwhile(
    whole: Slice, history: History, tmp_path: Path
) -> None:
    target, rest = Target.of(str(tmp_path)), list[Slice]()
    wider = history.table("orders", 16384, ["id", "status", "note", "paid_at"], number=2)
    history.commit(insert(4, version=wider))

    def export_the_rest(progress: Progress) -> None:
        if not rest:
            rest.append(replace(whole, after_seq=whole.through_seq, through_seq=4))
            export(rest[0], target, dsn=store_conninfo())

    manifest = export(whole, target, dsn=store_conninfo(), progress=export_the_rest)
    schema = target.read_json(f"{manifest.folder}/public.orders/_schema.json")
    assert schema is not None
    assert [each["number"] for each in schema["versions"]] == [1, 2]
    assert "paid_at" in [each["name"] for each in schema["columns"]]
