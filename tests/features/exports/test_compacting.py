"""Small files of an archive become large ones: the same rows, whatever is killed, whoever reads."""

import datetime as dt
import re
import secrets
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from replview.features.archive import job as archiving
from replview.parquet import reading
from replview.parquet.archive import compacting
from replview.parquet.archive.compacting import Compacted, compact
from replview.parquet.archive.deleted import read_archived
from replview.parquet.archive.increments import write_next
from replview.parquet.archive.reading import ArchivedIncarnation
from replview.parquet.erasure.finding import FileErasure
from replview.parquet.erasure.roots import ErasureRoot
from replview.parquet.slices import Slice
from replview.parquet.writing.chains import Chain
from replview.parquet.writing.manifests import Manifest, manifests, path_of
from replview.parquet.writing.targets import Target
from replview.runtime.failpoints import Point
from replview.spark.archive_job import count
from replview.store import instance_settings
from replview.store.connecting import store_conninfo
from replview.store.models import ArchiveMark, SlotEvent, Transaction
from replview.store.read.row_history.trails import KeySpan, key_of
from tests.support.commands import an_instance as an_instance  # a fixture
from tests.support.commands import run as run  # a fixture
from tests.support.digests import digests
from tests.support.failpoints import armed
from tests.support.history_rows import WHEN, History, insert

pytestmark = pytest.mark.slow

FOLDER = "shop/replview-1"
GIB = 1 << 30


def day(number: int) -> dt.datetime:
    return WHEN + dt.timedelta(days=number)


@pytest.fixture
def grown(history: History) -> History:
    """Three days with a dozen transactions: two tables, one with another shape from noon on, a
    truncation, and a message.
    """
    items = history.table("items", 16385, ["id", "order_id"])
    wider = history.table("orders", 16384, ["id", "status", "note", "more"], number=2)

    def line(number: int, **more: Any) -> dict[str, Any]:
        return {"op": "I", "new": {"id": str(number), "order_id": "1"}, "version": items, **more}

    for number in range(10, 13):
        history.commit(insert(number), line(number), commit_time=WHEN)
    message = {"op": "M", "new": {"prefix": "p", "content": "x", "transactional": True}}
    history.commit({"op": "T", "new": {"cascade": False, "restart_identity": False}}, message,
                   relations={str(history.orders.relation_id): [0, 0, 0, 1]},
                   commit_time=WHEN)  # fmt: skip
    for number in range(20, 24):
        # The first of them was stored a day late.
        history.commit(insert(number, version=wider), commit_time=day(number > 20))
    for number in range(30, 32):
        history.commit(insert(number, version=wider), line(number), commit_time=day(2))
    return history


@pytest.fixture
def archive(grown: History, tmp_path: Path) -> tuple[Target, Slice]:
    """A slice a transaction, and the chain of all of them."""
    target = Target.of(str(tmp_path / "archive"))
    chain = Slice(
        source="shop", slot="replview", incarnation_id=grown.incarnation.pk, incarnation=1,
        after_seq=0, through_seq=grown.incarnation.commit_seq,
    )  # fmt: skip
    for seq in range(chain.through_seq):
        part = replace(chain, after_seq=seq, through_seq=seq + 1)
        write_next(part, target, dsn=store_conninfo())
    return target, chain


def documents(target: Target) -> list[dict[str, Any]]:
    found = (target.read_json(f"{FOLDER}/_manifests/{n}.json") for n in manifests(target, FOLDER))
    return [document for document in found if document]


def told(target: Target) -> dict[str, list[dict[str, Any]]]:
    """The rows of each dataset and day, as those find them who go by manifests."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in (file for document in documents(target) for file in document["files"]):
        with target.open(file["path"]) as source:
            rows = pq.ParquetFile(source).read().to_pylist()
        found.setdefault(file["path"].rpartition("/")[0], []).extend(rows)
    return found


def counts(target: Target) -> Counter[tuple[Any, str]]:
    found = Counter[tuple[Any, str]]()
    for document in documents(target):
        counted: Any = count(target, Manifest(document))
        for oid, op, number in counted["changes"]:
            found[oid, op] += number
    return found


def size_bytes(target: Target) -> int:
    return sum(path.stat().st_size for path in Path(target.url).rglob("*.parquet"))


def compacted(target: Target, chain: Slice) -> Compacted:
    return compact(target, chain, most_bytes=GIB)


def test_a_day_of_a_table_becomes_a_file_of_each_shape(archive: tuple[Target, Slice]) -> None:
    target, chain = archive
    rows, number, size = told(target), counts(target), size_bytes(target)

    made = compacted(target, chain)
    assert size_bytes(target) == size + made.grown
    assert (told(target), counts(target)) == (rows, number)
    paths = [path for path in digests(Path(target.url)) if path.endswith(".parquet")]
    assert len(paths) == made.after < made.before
    there = Counter(path.removeprefix(f"{FOLDER}/").rpartition("/")[0] for path in paths)
    assert there == {
        # Before the column came, and after.
        "public.orders/commit_date=2026-11-20": 2, "public.orders/commit_date=2026-11-21": 1,
        "public.items/commit_date=2026-11-20": 1, "transactions/commit_date=2026-11-20": 1,
        "transactions/commit_date=2026-11-21": 1, "events/commit_date=2026-11-20": 1,
        # A day that is not over.
        "public.orders/commit_date=2026-11-22": 2, "public.items/commit_date=2026-11-22": 2,
        "transactions/commit_date=2026-11-22": 2,
    }  # fmt: skip
    assert Chain.of(target, chain).within(chain) == [chain]
    assert target.size(f"{FOLDER}/_SUCCESS") == 0
    assert not [path for path in digests(Path(target.url)) if "_compacting" in path]
    assert compacted(target, chain) == Compacted()
    # The next slice goes on after it, and the day before is over.
    assert Chain.of(target, chain).reached() == chain.through_seq


def test_whatever_is_killed_readers_have_the_old_files_or_the_new_ones(
    archive: tuple[Target, Slice], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    target, chain = archive
    monkeypatch.setattr("replview.parquet.writing.filesystems.os.fsync", lambda descriptor: None)
    rows = told(target)
    former = tmp_path / "former"
    shutil.copytree(target.url, former)
    compacted(target, chain)
    whole = digests(Path(target.url))
    left = 0

    def killing(name: str) -> Callable[..., Any]:
        run = getattr(Target, name)

        def step(*words: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return run(*words, **more)

        return step

    for steps in range(200):
        shutil.rmtree(target.url)
        shutil.copytree(former, target.url)
        left = steps
        with monkeypatch.context() as patch:
            for name in ("create", "move", "delete"):
                patch.setattr(Target, name, killing(name))
            try:
                compacted(target, chain)
            except Killed:
                pass
            else:
                break
        assert told(target) == rows, steps
        compacted(target, chain)
        assert digests(Path(target.url)) == whole, steps
    assert steps > 40


def test_whoever_reads_meanwhile_loses_nothing(
    archive: tuple[Target, Slice], grown: History
) -> None:
    target, chain = archive
    read = ArchivedIncarnation.of(target.url, "shop", "replview", 1)
    key, oids = {"id": "3"}, [16384]
    every = [change.op for change in read.row(oids, key).changes]
    assert every == ["U", "I"]
    first = read.row(oids, key, limit=1)
    facts = [read.transaction(seq) for seq in range(1, 14)]
    with reading.connect(store_conninfo()) as store:
        former = path_of(replace(chain, after_seq=4, through_seq=5))
        part = replace(chain, after_seq=4, through_seq=5)
        records = [b.to_pylist() for b in read_archived(store, target, former, part, None)]
        compacted(target, chain)
        # A partition of a Spark read that was planned earlier names the former slice.
        assert records == [b.to_pylist() for b in read_archived(store, target, former, part, None)]
    assert [read.transaction(seq) for seq in range(1, 14)] == facts
    rest = read.row(oids, key, cursor=first.older).changes
    assert [change.op for change in (*first.changes, *rest)][-2:] == every
    assert [change.op for change in read.row(oids, key).changes] == every


def test_files_are_as_large_as_they_are_to_be(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (("FULL_BYTES", 64_000), ("MOST_BYTES", 128_000)):
        monkeypatch.setattr(compacting, name, size)
    texts = [secrets.token_hex(4_000) for _ in range(80)]
    for n, text in enumerate(texts):
        history.commit(insert(n, new={"id": str(n), "status": text, "note": None}),
                       commit_time=WHEN)  # fmt: skip
    history.commit(insert(1000), commit_time=day(1))
    target = Target.of(str(tmp_path / "archive"))
    chain = Slice(source="shop", slot="replview", incarnation_id=history.incarnation.pk,
                  incarnation=1, after_seq=0, through_seq=84)  # fmt: skip
    for after in range(0, 84, 4):
        part = replace(chain, after_seq=after, through_seq=after + 4)
        write_next(part, target, dsn=store_conninfo())
    # Some at a time.
    runs = 0
    while compact(target, chain, most_bytes=100_000) != Compacted():
        runs += 1
    assert runs > 2
    folder = Path(target.url) / FOLDER / "public.orders/commit_date=2026-11-20"
    *large, _ = [path.stat().st_size for path in sorted(folder.iterdir())]
    assert len(large) >= 4
    assert all(64_000 <= size <= 128_000 for size in large)
    [rows] = [rows for path, rows in told(target).items() if path.endswith("orders/" + folder.name)]
    assert [row["status"] for row in rows if len(row["status"] or "") > 9] == texts


def test_what_is_erased_meanwhile_does_not_come_back(
    archive: tuple[Target, Slice],
) -> None:
    class Killed(BaseException):
        pass

    def killed() -> None:
        raise Killed

    target, chain = archive
    with armed(Point.BEFORE_JOURNAL, killed), pytest.raises(Killed):
        compacted(target, chain)
    assert [path for path in digests(Path(target.url)) if "_compacting" in path]
    span = KeySpan(key_of({"id": "11"}))
    wanted = FileErasure(erasure=1, day="2026-11-22", homes=[("shop", "replview")],
                         tables={16384: [span]})  # fmt: skip
    assert ErasureRoot.of(target.url, wanted).erase().rows == 1
    assert not [path for path in digests(Path(target.url)) if "_compacting" in path]
    compacted(target, chain)
    orders = [row for path, rows in told(target).items() if "orders" in path for row in rows]
    assert "11" not in [row["id"] for row in orders]
    [file] = [each for each in documents(target)[0]["files"]
              if "public.orders/commit_date=2026-11-20" in each["path"]
              and each["commit_seq"]["first"] == 1]  # fmt: skip
    with target.open(file["path"]) as source:
        metadata = pq.ParquetFile(source).schema_arrow.metadata
    assert orjson.loads(metadata[b"replview.erased"]) == [1]
    assert [each["erasure"] for each in documents(target)[0]["erased"]] == [1]


@pytest.mark.long
def test_a_worker_does_it_by_the_way_and_a_command_at_once(
    grown: History, tmp_path: Path, run: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target.of(str(tmp_path / "archive"))
    instance_settings.write("archive.target", target.url, "somebody")
    monkeypatch.setattr("replview.store.retention.archive.MOST_TRANSACTIONS", 5)
    Transaction.objects.update(stored_at=WHEN)
    stop = threading.Event()
    assert archiving.work_off(stop) > 2
    assert len(manifests(target, FOLDER)) == 1
    assert ArchiveMark.objects.get().size_bytes == size_bytes(target)
    assert archiving.compact(stop) == ([0, 0], "")

    grown.commit(insert(39), commit_time=day(2))
    grown.commit(insert(40), commit_time=day(3))
    Transaction.objects.update(stored_at=WHEN)
    with monkeypatch.context() as patch:
        patch.setattr(archiving, "compact", lambda stop: None)
        assert archiving.work_off(stop) == 1
    assert re.match(r"\d+ files became \d+", run("store", "archive", "compact"))
    assert run("store", "archive", "compact") == "there is nothing to compact\n"
    assert ArchiveMark.objects.get().size_bytes == size_bytes(target)

    # Files that differ from what was written are left as they are, and named.
    for number in (41, 42):
        grown.commit(insert(number), commit_time=day(4))
    Transaction.objects.update(stored_at=WHEN)
    monkeypatch.setattr("replview.store.retention.archive.MOST_TRANSACTIONS", 1)
    assert archiving.work_off(stop) == 2
    grown.commit(insert(43), commit_time=day(5))
    Transaction.objects.update(stored_at=WHEN)
    [broken, *_] = Path(target.url).rglob("public.orders/commit_date=2026-11-24/*.parquet")
    data = bytearray(broken.read_bytes())
    data[40] ^= 1
    broken.write_bytes(data)
    before = digests(Path(target.url))
    assert archiving.work_off(stop) == 1
    after = digests(Path(target.url))
    assert all(after[path] == sha for path, sha in before.items() if path.endswith(".parquet"))
    event = SlotEvent.objects.filter(kind="archive").latest("pk")
    assert "a file of the archive is missing or not as it was written" in event.message
