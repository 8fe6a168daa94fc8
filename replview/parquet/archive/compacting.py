"""Compact an archive: merge its small files into large ones while readers use it.

``python -m replview.parquet.archive.compacting JOB.json`` does a part of the work. The file has
``slice`` (the archive's chain, up to where it may be changed), ``target``, ``most_bytes`` (to read
in this run) and ``bytes_per_second``. Standard output is one JSON object: ``{"before", "after"}``
(numbers of files) and ``{"read", "grown"}`` (bytes), all 0 where there was nothing to do, or
``{"problem", "remedy"}`` with status 1.

**What.** Consecutive slices become one slice, their union, with one manifest, limited to a month
and to a number of files and changes. In it, a table's files of one day of commits (a partition of
the layout) and of one schema become one, or files of 128 to 256 MB, in the order of history; so do
the files of transactions and events. A day is left alone until the next one has begun. Rows, and
the description of columns in a file, stay as they are; files that need no change are not rewritten.

**How.** The new files are written to ``_compacting/``, which readers ignore. Once all exist,
``_compacting/journal.json`` says what is to be done, and from then on it will be done, by the next
run if not by this one (``settle``): the files get their names, the union's manifest is written, the
former manifests are deleted, then the former files. A reader that uses manifests sees the former
slices until the union's manifest exists, and from then on the union, which replaces the slices
within it (``manifests.manifests``). A reader that lists folders must look for ``_SUCCESS``, which
is missing meanwhile, as while a slice is written.
"""

import datetime as dt
import hashlib
import logging
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from decoder.scalars import lsn_text
from replview.parquet.archive.changes import lsn_of
from replview.parquet.job_process import begin, problem_of, say
from replview.parquet.slices import Slice
from replview.parquet.writing import layout
from replview.parquet.writing.chains import Chain
from replview.parquet.writing.files import ERASED_KEY, PART_KEY, footer_value, sha256_of
from replview.parquet.writing.manifests import Manifest, path_of, read_manifest, seal
from replview.parquet.writing.problems import Cancelled, TargetProblem, raising_problems
from replview.parquet.writing.row_groups import row_groups, write_file
from replview.parquet.writing.targets import Target
from replview.runtime.failpoints import Point, failpoint

MIB = 1 << 20
#: A file of ``FULL_BYTES`` is full, and no merged file exceeds ``MOST_BYTES``.
FULL_BYTES, MOST_BYTES = 128 * MIB, 256 * MIB
#: The limits of a union.
MOST_DAYS, MOST_FILES, MOST_CHANGES = 31, 2_000, 20_000_000
#: More slices than this become one even where their files stay as they are.
MOST_SLICES = 8
_FOLDER = "_compacting"
_JOURNAL = f"{_FOLDER}/journal.json"
_BATCH_ROWS = 16_384
_LOOK_SECONDS = 0.5
_SUMMED = ("rows", "changes", "unknown", "unfit")
PROBLEM, STOPPED = 1, 3
File = Mapping[str, Any]
log = logging.getLogger("replview.archive")


@dataclass(frozen=True, slots=True)
class Merge:
    """Files of one schema that become one, in their order."""

    files: Sequence[File]

    @property
    def name(self) -> str:
        """Return the name, a digest that depends on the files' contents alone."""
        sums = "".join(each["sha256"] for each in self.files)
        return hashlib.sha256(sums.encode()).hexdigest()[:12]

    @property
    def path(self) -> str:
        """Return the path of the merged file, relative to the root."""
        folder = self.files[0]["path"].rpartition("/")[0]
        first = min(lsn_of(each["first_lsn"]) for each in self.files)
        last = max(lsn_of(each["last_lsn"]) for each in self.files)
        return f"{folder}/part-{first:016X}-{last:016X}-{self.name}.zstd.parquet"

    @property
    def bytes(self) -> int:
        """Return the size of the files that are merged."""
        return sum(each["bytes"] for each in self.files)


@dataclass(frozen=True, slots=True)
class CompactionWork:
    """Slices that become one, and those of their files that are merged."""

    slices: Sequence[Slice]
    documents: Sequence[Mapping[str, Any]]
    merges: Sequence[Merge]

    @property
    def union(self) -> Slice:
        """Return the slice that replaces the slices."""
        return replace(self.slices[0], through_seq=self.slices[-1].through_seq)


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a run."""

    #: Numbers of files.
    before: int = 0
    after: int = 0
    #: Bytes read, and the archive's growth in bytes, usually negative.
    read: int = 0
    grown: int = 0


def compact(
    target: Target,
    chain: Slice,
    *,
    most_bytes: int,
    bytes_per_second: float | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Compacted:
    """Do a part of the work; ``Compacted()`` says that there is none.

    No other process may write slices of the chain, or erase from it, meanwhile. Raises
    ``TargetProblem``, and ``Cancelled``: the next run finds the files that are finished.
    """
    folder = layout.incarnation_folder(chain)
    settle(target, folder)
    work = next_work(target, chain, most_bytes)
    names = {f"{each.name}.parquet" for each in work.merges} if work else set()
    for found in target.files(f"{folder}/{_FOLDER}"):
        if found.path.rpartition("/")[2] not in names:
            target.delete(found.path)
    if work is None:
        return Compacted()
    pace = _ReadingLimit(bytes_per_second, cancelled)
    made = [_Writer(target, folder, work.union, each, pace).written() for each in work.merges]
    union = _united(work, made)
    moves = [[f"{folder}/{_FOLDER}/{merge.name}.parquet", each["path"], each["bytes"]]
             for merge, each in zip(work.merges, made, strict=True)]  # fmt: skip
    gone = [each["path"] for merge in work.merges for each in merge.files]
    former = [path_of(each) for each in work.slices if each != work.union]
    failpoint(Point.BEFORE_JOURNAL)
    target.write_json(f"{folder}/{_JOURNAL}", {
        "manifest": union.document, "moves": moves, "gone": gone, "former": former,
    })  # fmt: skip
    settle(target, folder)
    before = sum(len(each["files"]) for each in work.documents)
    read = sum(merge.bytes for merge in work.merges)
    return Compacted(before, len(union.files), read, sum(each["bytes"] for each in made) - read)


def settle(target: Target, folder: str, *, discard: bool = False) -> None:
    """Complete the work of a journal that an earlier run wrote.

    ``discard`` deletes files without a journal, so that no erased value is left in them.
    """
    journal = target.read_json(f"{folder}/{_JOURNAL}")
    if journal is not None:
        union = Manifest(journal["manifest"])
        target.delete(f"{folder}/{layout.SUCCESS}")
        for staged, path, size in journal["moves"]:
            if target.size(path) != size:
                target.move(staged, path)
        target.write_json(path_of(union.slice), union.document)
        last = read_manifest(target, folder)
        if last and path_of(last.slice) in (path_of(union.slice), *journal["former"]):
            target.write_json(f"{folder}/{layout.MANIFEST}", union.document)
        for path in (*journal["former"], *journal["gone"]):
            target.delete(path)
        seal(target, union.slice, None)
        target.delete(f"{folder}/{_JOURNAL}")
    if discard:
        for found in target.files(f"{folder}/{_FOLDER}"):
            target.delete(found.path)
    if journal is not None or discard:
        target.delete_empty(f"{folder}/{_FOLDER}")


def next_work(target: Target, chain: Slice, most_bytes: int) -> CompactionWork | None:
    """Return the first slices of the chain, up to its end, that need compaction."""
    slices = Chain.of(target, chain).within(chain)
    ends = (_last_day(_document(target, each)) for each in reversed(slices))
    # The last day may still get transactions.
    today = next((day for day in ends if day is not None), "")
    for some in _unions(target, slices):
        merges, size = list[Merge](), 0
        for merge in _merges(target, [document for _, document in some], today):
            if merges and size + merge.bytes > most_bytes:
                break
            merges.append(merge)
            size += merge.bytes
        if merges or len(some) > MOST_SLICES:
            return CompactionWork(
                [part for part, _ in some], [document for _, document in some], merges
            )
    return None


def _unions(
    target: Target, slices: Sequence[Slice]
) -> Iterator[list[tuple[Slice, Mapping[str, Any]]]]:
    """Yield groups of slices that may become one, each slice with its manifest."""
    some: list[tuple[Slice, Mapping[str, Any]]] = []
    files = changes = 0
    for part in slices:
        document = _document(target, part)
        files += len(document["files"])
        changes += document["changes"]
        first = next((day for _, each in some if (day := _last_day(each))), None)
        last = _last_day(document) or first
        days = 0 if first is None or last is None else _days(first, last)
        if some and (files > MOST_FILES or changes > MOST_CHANGES or days >= MOST_DAYS):
            yield some
            some, files, changes = [], len(document["files"]), document["changes"]
        some.append((part, document))
    if some:
        yield some


def _merges(target: Target, documents: Sequence[Mapping[str, Any]], today: str) -> Iterator[Merge]:
    placed: dict[tuple[str, str], list[File]] = {}
    for file in (each for document in documents for each in document["files"]):
        day = file["commit_date"] or ""
        if day < today:
            placed.setdefault((file["dataset"], day), []).append(file)
    for files in placed.values():
        yield from _runs(target, files) if len(files) > 1 else ()


def _runs(target: Target, files: Sequence[File]) -> Iterator[Merge]:
    """Yield the files of one day that become one."""
    run: list[File] = []
    size, former = 0, None
    for file in files:
        schema = _schema(target, file)
        shape = schema.remove_metadata(), {**_own(schema), "versions": None}
        full = size >= FULL_BYTES or size + file["bytes"] > MOST_BYTES
        if run and (full or shape != former):
            if len(run) > 1:
                yield Merge(run)
            run, size = [], 0
        run.append(file)
        size, former = size + file["bytes"], shape
    if len(run) > 1:
        yield Merge(run)


def _schema(target: Target, file: File) -> pa.Schema:
    with raising_problems(), target.open(file["path"]) as source:
        return pq.ParquetFile(source).schema_arrow


def _own(schema: pa.Schema) -> dict[str, Any]:
    """Return the description of columns in a table's file."""
    return dict(orjson.loads(footer_value(schema, b"replview") or b"{}"))


def _document(target: Target, part: Slice) -> dict[str, Any]:
    document = target.read_json(path_of(part))
    if document is None:
        raise TargetProblem("a slice of the archive is not there any more", "look who deleted it")
    return document


def _last_day(document: Mapping[str, Any]) -> str | None:
    days = document["commit_date"]
    return None if days is None else str(days["last"])


def _days(first: str, last: str) -> int:
    return (dt.date.fromisoformat(last) - dt.date.fromisoformat(first)).days


@dataclass(frozen=True, slots=True)
class _ReadingLimit:
    """The limit of the reading speed, and the test for cancellation."""

    bytes_per_second: float | None
    cancelled: Callable[[], bool]

    def keep(self, began: float, size: int) -> None:
        """Wait until ``size`` bytes may have been read since ``began``. Raises ``Cancelled``."""
        while not self.cancelled():
            ahead = began + size / (self.bytes_per_second or math.inf) - time.monotonic()
            if ahead <= 0:
                return
            time.sleep(min(ahead, _LOOK_SECONDS))
        raise Cancelled


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes one file to ``_compacting/``."""

    target: Target
    folder: str
    union: Slice
    merge: Merge
    pace: _ReadingLimit

    def written(self) -> dict[str, Any]:
        """Write the file, unless an earlier run finished it, and return its manifest entry."""
        files, path = self.merge.files, f"{self.folder}/{_FOLDER}/{self.merge.name}.parquet"
        rows = sum(each["rows"] for each in files)
        if (found := self._finished(path, rows)) is None:
            sink = write_file(self.target, path, self.schema(), self._groups(rows))
            found = sink.sha256, sink.bytes
        sums = {name: sum(each.get(name, 0) for each in files) for name in _SUMMED
                if any(name in each for each in files)}  # fmt: skip
        places = [each["commit_seq"] for each in files if "commit_seq" in each]
        if len(places) == len(files):
            sums["commit_seq"] = {"first": places[0]["first"], "last": places[-1]["last"]}
        ends = {name: lsn_text(chosen(lsn_of(each[name]) for each in files))
                for name, chosen in (("first_lsn", min), ("last_lsn", max))}  # fmt: skip
        return {**files[0], **sums, **ends, "path": self.merge.path, "bytes": found[1],
                "sha256": found[0]}  # fmt: skip

    def schema(self) -> pa.Schema:
        """Return the schema of the files, with the combined metadata of their footers."""
        found = [_schema(self.target, each) for each in self.merge.files]
        metadata = [each.metadata or {} for each in found]
        own = [_own(each) for each in found]
        told = dict(metadata[0])
        if own[0]:
            versions = sorted({each for one in own for each in one["versions"]})
            told[b"replview"] = orjson.dumps({**own[0], "versions": versions})
        acts = sorted({n for each in metadata for n in orjson.loads(each.get(ERASED_KEY, b"[]"))})
        if acts:
            told[ERASED_KEY] = orjson.dumps(acts)
        ends = [orjson.loads(footer_value(each, PART_KEY) or b"{}") for each in found]
        # A file that Spark wrote does not say where it begins and ends.
        known = {"after": ends[0].get("after"), "through": ends[-1].get("through")}
        kind = {"kind": ends[0]["kind"]} if "kind" in ends[0] else {}
        whose = {"slice": layout.slice_name(self.union), **kind}
        told[PART_KEY] = orjson.dumps(
            {**whose, **{name: place for name, place in known.items() if place is not None}}
        )
        return found[0].with_metadata(told)

    def _finished(self, path: str, rows: int) -> tuple[str, int] | None:
        if self.target.size(path) is None:
            return None
        with raising_problems(), self.target.open(path) as file:
            parquet = pq.ParquetFile(file)
            if parquet.metadata.num_rows != rows or not parquet.schema_arrow.equals(
                self.schema(), check_metadata=True
            ):
                return None
            return sha256_of(file)

    def _groups(self, rows: int) -> Iterator[pa.Table]:
        schema, found = self.schema(), 0

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal found
            began, read = time.monotonic(), 0
            for each in self.merge.files:
                with raising_problems(), self.target.open(each["path"]) as file:
                    # A file that has changed since it was written must not be copied.
                    if sha256_of(file) != (each["sha256"], each["bytes"]):
                        raise _broken()
                    parquet = pq.ParquetFile(file)
                    for batch in parquet.iter_batches(batch_size=_BATCH_ROWS):
                        found += batch.num_rows
                        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
                        share = batch.num_rows / max(parquet.metadata.num_rows, 1)
                        read += int(each["bytes"] * share)
                        self.pace.keep(began, read)
            if found != rows:
                raise _broken()

        return row_groups(batches(), schema)


def _broken() -> TargetProblem:
    return TargetProblem(
        "a file of the archive is missing or not as it was written",
        "restore it; nothing of its slice was changed",
    )


def _united(work: CompactionWork, made: Sequence[File]) -> Manifest:
    """Return the manifest of the union, with the new list of files, in the order of history."""
    instead = {file["path"]: each for merge, each in zip(work.merges, made, strict=True)
               for file in merge.files}  # fmt: skip
    document = dict(Manifest.together(work.union, [*map(Manifest, work.documents)]).document)
    files = {each["path"]: each for file in document["files"]
             for each in [instead.get(file["path"], file)]}  # fmt: skip
    numbers = Counter(each["dataset"] for each in files.values())
    erased = {each["erasure"]: each for one in work.documents for each in one.get("erased", ())}
    return Manifest({
        **document,
        "bytes": sum(each["bytes"] for each in files.values()),
        "tables": [{**each, "files": numbers[each["dataset"]]} for each in document["tables"]],
        "files": list(files.values()),
        **({"erased": list(erased.values())} if erased else {}),
    })  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run the job that a file describes; return the exit status."""
    path, stopped = begin(arguments)
    try:
        job = orjson.loads(path.read_bytes())
        done = compact(
            Target.of(job["target"]), Slice.from_json(job["slice"]), most_bytes=job["most_bytes"],
            bytes_per_second=job["bytes_per_second"], cancelled=stopped.is_set,
        )  # fmt: skip
        say(asdict(done))
    except Cancelled:
        return STOPPED
    except Exception as error:
        remedy = "the log of the archive's job names the place; it is tried again by itself"
        say(problem_of(error, log, what="compacting", unexpected=remedy))
        return PROBLEM
    if done.before:
        log.info("%s files became %s, of %s bytes", done.before, done.after, done.read)
    return 0


if __name__ == "__main__":
    sys.exit(main())
