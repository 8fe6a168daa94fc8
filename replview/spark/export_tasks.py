"""Export with Spark: executors read the store in partitions, one per file, and write the files.

Planner and writer are those of a plain process. A dataset is a frame of ``format("replview")``
whose option ``files`` names the planned files. ``mapInArrow`` writes each file in the task that
read its rows, so the rows keep their order, and the bytes equal those of a plain process: on
threads, on a cluster, or by Connect. The result lists the written files.
"""

import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
import pyarrow as pa

from replview.parquet.writing.exporting import WriteParts
from replview.parquet.writing.files import FilePart, PartWriter, WrittenFile, check_rows
from replview.parquet.writing.layout import incarnation_folder
from replview.parquet.writing.problems import Cancelled, TargetProblem
from replview.spark.planned_files import PlannedFiles, problem_in
from replview.spark.sessions import SparkProblem, by_connect, session

_LOOK_SECONDS = 0.5
#: Seconds between two searches for finished files, locally and on object stores.
_COUNT_SECONDS = 1.0
_COUNT_ELSEWHERE_SECONDS = 10.0
#: Most datasets at the same time: Spark plans one while others are written.
_SIDE_BY_SIDE = 4
_MISSING = re.compile(r"No module named '(\w+)")
#: Spark ends a cancelled task's Python after two seconds.
_KILLED_SECONDS = 4.0


def _problem(error: BaseException) -> BaseException:
    """Return the problem that a task reported, else the error itself."""
    text = str(error)
    if (told := problem_in(text)) is not None:
        return told
    if lacking := _MISSING.search(text):
        return SparkProblem(
            f"the Python of Spark's executors has no {lacking[1]}",
            "install it there: pip install 'psycopg[binary]' pyarrow orjson",
        )
    return error


@contextmanager
def writing(where: str | None, name: str) -> Iterator[WriteParts | None]:
    """Yield a function that writes files with Spark at ``where``; None without Spark.

    ``default`` uses the setting of spark-submit and the environment. Raises ``SparkProblem``.
    """
    if not where:
        yield None
        return
    # A local driver only passes plans on, so optimise its start-up time.
    settings = {} if where.startswith("sc://") else {"spark__driver__memory": "1g"}
    if where.startswith("local"):
        settings["spark__driver__extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = session(None if where == "default" else where, name=name, **settings)
    try:
        yield partial(write_parts, spark)
    finally:
        spark.stop()


def write_parts(
    spark: Any, writer: PartWriter, parts: Sequence[FilePart], dsn: str | None,
    cancelled: Callable[[], bool],
) -> Iterator[WrittenFile | None]:  # fmt: skip
    """Yield each file when it appears, and again with its checksum once its dataset is written.

    None is yielded regularly, so that the caller can report progress. Raises what
    ``PartWriter.write`` raises, wherever it ran.
    """
    datasets: dict[tuple[str, int | None], list[FilePart]] = {}
    for part in parts:
        datasets.setdefault((part.dataset, part.relation_id), []).append(part)
    frames = _Frames(spark, dsn, writer, f"replview-{secrets.token_hex(6)}")
    appearing = _Appearing(writer, parts)
    pool = ThreadPoolExecutor(_SIDE_BY_SIDE, "replview-export")
    waiting = {pool.submit(frames.written, each) for each in datasets.values()}
    try:
        while waiting:
            ended, waiting = wait(waiting, _LOOK_SECONDS, FIRST_COMPLETED)
            if cancelled():
                raise Cancelled
            for dataset in ended:
                yield from appearing.without(dataset.result())
            yield from appearing.files()
            yield None
    finally:
        if waiting:
            pool.shutdown(wait=False, cancel_futures=True)
            frames.cancel()
            wait(waiting, _KILLED_SECONDS)
            time.sleep(_KILLED_SECONDS)
        pool.shutdown(wait=False)


@dataclass(frozen=True, slots=True)
class _Frames:
    """Spark's jobs, one per dataset, with one task per file."""

    spark: Any
    dsn: str | None
    writer: PartWriter
    tag: str

    def written(self, parts: Sequence[FilePart]) -> list[WrittenFile]:
        """Write the files of one dataset."""
        relation = parts[0].relation_id
        table = None if relation is None else self.writer.tables[relation]
        files, url = PlannedFiles(self.writer.part_of, table, tuple(parts)), self.writer.target.url

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for each in files.write(url, batches):
                yield pa.RecordBatch.from_pydict({"written": [orjson.dumps(each).decode()]})

        # Job tags belong to this thread. (A session's tags can be cancelled by their thread only.)
        if self._context is None:
            self.spark.addTag(self.tag)
        else:
            self._context.addJobTag(self.tag)
        reader = self.spark.read.format("replview").option("files", files.to_json())
        reader = reader if self.dsn is None else reader.option("dsn", self.dsn)
        try:
            lines = reader.load().mapInArrow(write, "written string").collect()
        except Exception as error:
            raise _problem(error) from error
        found = [WrittenFile(**orjson.loads(line[0])) for line in lines]
        self._check(found, parts)
        return found

    def _check(self, found: Sequence[WrittenFile], parts: Sequence[FilePart]) -> None:
        for each in found:
            if self.writer.target.size(each.path) != each.bytes:
                raise TargetProblem(
                    "what Spark's executors wrote is not there: they see another disk",
                    "choose a target that all machines share, such as an object store",
                )
        missing = {part.path for part in parts} - {each.path for each in found}
        for part in parts:
            if part.path in missing:
                # A file without rows has no task that could check it.
                check_rows(0, part)

    @property
    def _context(self) -> Any:
        """Return the Spark context; None by Connect, which has none."""
        return None if by_connect(self.spark) else self.spark.sparkContext

    def cancel(self) -> None:
        """Cancel all jobs of the export."""
        if self._context is None:
            self.spark.interruptTag(self.tag)
        else:
            self._context.cancelJobsWithTag(self.tag)


class _Appearing:
    """A watch for finished files in the target.

    Executors report files only when their task has ended, but a file gets its name as soon as it is
    complete. If executors write to another disk no file is seen.
    """

    def __init__(self, writer: PartWriter, parts: Sequence[FilePart]) -> None:
        self._writer = writer
        there = self._sizes()
        self._wanted = {part.path: part for part in parts if part.path not in there}
        local = writer.target.is_local
        self._every_seconds = _COUNT_SECONDS if local else _COUNT_ELSEWHERE_SECONDS
        self._next = time.monotonic() + self._every_seconds

    def without(self, written: list[WrittenFile]) -> list[WrittenFile]:
        """Return these files, and do not report them again."""
        for each in written:
            self._wanted.pop(each.path, None)
        return written

    def files(self) -> Iterator[WrittenFile]:
        """Yield files that were not reported yet."""
        if time.monotonic() < self._next:
            return
        for path, size in self._sizes().items():
            if (part := self._wanted.pop(path, None)) is not None:
                rows = part.within.rows
                yield WrittenFile(
                    path=path, dataset=part.dataset, rows=rows, changes=rows, bytes=size, sha256=""
                )
        self._next = time.monotonic() + self._every_seconds

    def _sizes(self) -> dict[str, int]:
        folder = incarnation_folder(self._writer.part_of)
        return {each.path: each.bytes for each in self._writer.target.files(folder, deep=True)}
