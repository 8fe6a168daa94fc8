"""An export ends in the middle, at each of its steps: the next one gives every row once."""

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from django.utils import timezone

from replview.features.exports.request import ask, read_export_request
from replview.jobs.exports import rows
from replview.parquet import reading
from replview.parquet.slices import Slice
from replview.parquet.writing.problems import TargetProblem
from replview.store.connecting import store_conninfo
from replview.store.models import Export, Transaction
from tests.features.exports.conftest import ids
from tests.support.commands import an_instance as an_instance  # a fixture
from tests.support.commands import run as run  # a fixture
from tests.support.export_endings import IN_FILES, disk_full, killed, write
from tests.support.history_rows import WHEN, History, insert

pytestmark = pytest.mark.slow

SLOT = "shop/replview"
#: What was recorded of ``public.orders``: its rows' ids, in order.
FIRST, ALL = ["1", "2", "3", "3"], ["1", "2", "3", "3", "9"]


def whole_slice() -> Slice:
    with reading.connect(store_conninfo()) as store:
        return reading.resolve(store, reading.SliceRequest())


def assert_whole(root: Path, wanted: list[str]) -> None:
    """Every row once, every file told of by a manifest, and no half of one beside them."""
    assert ids(root) == wanted
    folder = root / "shop" / "replview-1"
    told: set[Path] = set()
    for path in (folder / "_manifests").glob("0*"):
        assert not path.name.endswith(".unfinished.json")
        told |= {root / each["path"] for each in orjson.loads(path.read_bytes())["files"]}
    assert {*root.rglob("*.parquet")} == told
    assert not list(root.rglob("_writing-part-*"))
    assert (folder / "_SUCCESS").exists()


@pytest.mark.parametrize("ended", [killed, disk_full])
def test_the_next_run_goes_on_with_what_one_began(
    history: History, tmp_path: Path, ended: Callable[[str, Slice, Path, int], bool]
) -> None:
    first = whole_slice()
    history.commit(insert(9))
    whole = replace(first, through_seq=4)
    number = 0
    while ended(store_conninfo(), first, root := tmp_path / f"{number}", number):
        write(store_conninfo(), whole, root)
        assert_whole(root, ALL)
        number += 1
    assert number > 8
    # Where the first run was not disturbed only what came since is written.
    write(store_conninfo(), whole, root)
    assert_whole(root, ALL)
    assert len(list(root.rglob("_manifests/0*"))) == 2


@pytest.mark.parametrize(("deleted", "wanted"), [(1, ["3", "3", "9"]), (3, ["9"])])
def test_rows_that_retention_deleted_between_two_runs_stand_in_no_file(
    history: History, tmp_path: Path, deleted: int, wanted: list[str]
) -> None:
    """The plan of the second run has other names for the same rows."""
    history.commit(insert(9), commit_time=WHEN + dt.timedelta(days=1))
    whole, roots = whole_slice(), [tmp_path / f"{number}" for number in (6, IN_FILES, 8, 10)]
    assert all(killed(store_conninfo(), whole, root, int(root.name)) for root in roots)
    files = [path.name for root in roots for path in root.rglob("public.orders/*/part-*")]
    assert (len(set(files)), len(files) > 2) == (2, True)
    Transaction.objects.filter(commit_seq__lte=deleted).delete()
    for root in roots:
        write(store_conninfo(), whole, root)
        assert_whole(root, wanted)


def test_the_only_copy_of_a_row_is_not_deleted_to_mend_a_slice(
    history: History, tmp_path: Path
) -> None:
    whole = whole_slice()
    write(store_conninfo(), whole, tmp_path)
    [lost] = tmp_path.rglob("transactions/*/part-*")
    lost.unlink()
    Transaction.objects.filter(commit_seq=1).delete()
    with pytest.raises(TargetProblem, match="the store deleted some of its transactions"):
        write(store_conninfo(), whole, tmp_path)
    assert ids(tmp_path) == FIRST
    write(store_conninfo(), whole, tmp_path, take_back=True)
    assert_whole(tmp_path, ["3", "3"])


@pytest.mark.parametrize("ended", [killed, disk_full])
def test_what_another_began_is_taken_back(
    history: History, tmp_path: Path, ended: Callable[[str, Slice, Path, int], bool]
) -> None:
    whole = whole_slice()
    inserts = replace(whole, operations=("insert",))
    number = 0
    while ended(store_conninfo(), inserts, root := tmp_path / f"{number}", number):
        marks = [path.name for path in root.rglob("_manifests/0*")]
        if any(name.endswith(".unfinished.json") for name in marks) or not marks:
            write(store_conninfo(), whole, root, inserts)
            assert_whole(root, FIRST)
        number += 1
    assert number > 8
    with pytest.raises(TargetProblem, match="twice"):
        write(store_conninfo(), whole, root, inserts)


def test_what_nobody_knows_of_is_left_alone_until_it_is_to_be_taken_back(
    history: History, tmp_path: Path
) -> None:
    whole = whole_slice()
    inserts = replace(whole, operations=("insert",))
    assert killed(store_conninfo(), inserts, tmp_path, IN_FILES)
    with pytest.raises(TargetProblem, match="not finished"):
        write(store_conninfo(), whole, tmp_path)
    # Somebody deletes the mark by hand: its files are there all the same.
    [mark] = tmp_path.rglob("*.unfinished.json")
    mark.unlink()
    assert [*tmp_path.rglob("*.parquet")]
    with pytest.raises(TargetProblem, match="no manifest tells of"):
        write(store_conninfo(), whole, tmp_path)
    write(store_conninfo(), whole, tmp_path, take_back=True)
    assert_whole(tmp_path, FIRST)


def test_a_mark_deleted_by_hand_doubles_nothing(history: History, tmp_path: Path) -> None:
    first = whole_slice()
    history.commit(insert(9))
    assert killed(store_conninfo(), first, tmp_path, IN_FILES)
    [mark] = tmp_path.rglob("*.unfinished.json")
    mark.unlink()
    write(store_conninfo(), replace(first, through_seq=4), tmp_path, first)
    assert_whole(tmp_path, ALL)


def test_since_last_goes_on_after_its_command_was_killed(
    history: History, tmp_path: Path, run: Callable[..., str]
) -> None:
    asked = read_export_request(history.slot, {}, name="nightly", since_last=True)
    out = tmp_path / "out"
    row = ask(asked, str(out), by="root", how=Export.How.COMMAND, anywhere=True)
    assert killed(store_conninfo(), asked.slice, out, IN_FILES)
    # No worker was there to notice it.
    lost = timezone.now() - dt.timedelta(minutes=1)
    Export.objects.filter(pk=row.pk).update(heartbeat_at=lost)
    history.commit(insert(9))

    said = run("export", slot=SLOT, name="nightly", since_last=True, to=str(out))
    assert "5 rows in" in said
    assert_whole(out, ALL)
    row.refresh_from_db()
    assert (row.state, row.problem_cause) == ("failed", "the command that wrote it was ended")
    done = Export.objects.get(state="done")
    assert (done.slice["after_seq"], done.slice["through_seq"], done.rows) == (0, 4, 5)
    assert done.result is not None
    assert len(done.result["files"]) == len([*out.rglob("*.parquet")])


def test_export_again_after_one_that_failed(
    history: History, tmp_path: Path, run: Callable[..., str]
) -> None:
    out = tmp_path / "out"
    asked = read_export_request(history.slot, {"ops": "I"})
    row = ask(asked, str(out), by="root", how=Export.How.COMMAND, anywhere=True)
    assert killed(store_conninfo(), asked.slice, out, IN_FILES)
    rows.fail(row, "the disk is full", "")
    said = run("export", slot=SLOT, to=str(out))
    assert "4 rows in" in said
    assert_whole(out, FIRST)
