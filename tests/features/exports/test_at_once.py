"""Several exports write into one folder at the same time."""

from dataclasses import replace
from pathlib import Path

import pytest

from replview.features.exports.request import read_export_request
from replview.parquet.slices import Slice
from replview.parquet.writing import manifests
from replview.parquet.writing.exporting import export
from replview.parquet.writing.layout import incarnation_folder
from replview.parquet.writing.targets import Target
from replview.store.connecting import store_conninfo
from tests.support.history_rows import History

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
