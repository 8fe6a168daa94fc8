"""Write the files of an export with Spark: it reads the store and writes Parquet by itself.

A dataset is a frame of ``format("replview")`` with one partition per planned file, which Spark
writes by ``frame.write.partitionBy("commit_date").parquet(…)`` into a staging folder of this run.
Each file is then counted and hashed by Spark's tasks, and moved to the name that the plan has for
it. So a file of Spark stands under its name only when its whole dataset was written, and exports
without Spark have the same layout, rows and types.
"""

import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import orjson
import pyarrow as pa

from replview.parquet.slice_schemas import PARTITION
from replview.parquet.writing import layout
from replview.parquet.writing.exporting import WriteParts
from replview.parquet.writing.files import FilePart, PartWriter, WrittenFile, check_rows
from replview.parquet.writing.problems import Cancelled, TargetProblem, problem_of
from replview.parquet.writing.row_groups import GROUP_ROWS
from replview.parquet.writing.targets import Target
from replview.spark.planned_files import PlannedFiles, problem_in, raise_for_driver
from replview.spark.quoting import spark_address, spark_settings
from replview.spark.sessions import SparkProblem, by_connect, missing_connector, session

log = logging.getLogger("replview.export")

_LOOK_SECONDS = 0.5
#: Most datasets at the same time: Spark plans one while others are written.
_SIDE_BY_SIDE = 4
_MISSING = re.compile(r"No module named '(\w+)")
#: Seconds to wait for cancelled jobs: Spark ends a cancelled task's Python after two seconds. A job
#: in a process of its own is killed twenty seconds after its signal (``processes``).
_ENDS_WITHIN_SECONDS = 10.0
#: Spark numbers its files by the partitions that they come from.
_NUMBER = re.compile(rf"/{PARTITION}=[^/]+/part-(\d+)-[^/]+\.parquet$")
#: How Spark writes: row groups as in files of this process, and no ``_SUCCESS`` of its own. One
#: file per partition: with a writer for each day Spark need not sort, and keeps the order of rows.
_OPTIONS = {
    "compression": "zstd",
    "maxRecordsPerFile": "0",
    "parquet.block.row.count.limit": str(GROUP_ROWS),
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_SETTINGS = {
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
#: An error of Hadoop's file systems within Spark's message.
_OF_FILES = re.compile(
    r"(?:java\.(?:nio\.file|io)\.\w+Exception|org\.apache\.hadoop\.fs\.[\w.]+Exception"
    r"|software\.amazon\.[\w.]+Exception): ([^\n]*)"
)


@contextmanager
def writing(where: str | None, name: str) -> Iterator[WriteParts | None]:
    """Yield a function that writes files with Spark at ``where``; None without Spark.

    ``default`` uses the setting of spark-submit and the environment. Raises ``SparkProblem``.
    """
    if not where:
        yield None
        return
    spark = session(None if where == "default" else where, name=name)
    try:
        yield partial(write_parts, spark)
    finally:
        spark.stop()


def write_parts(
    spark: Any, writer: PartWriter, parts: Sequence[FilePart], dsn: str | None,
    wrote: Callable[[int], None], cancelled: Callable[[], bool],
) -> Iterator[WrittenFile | None]:  # fmt: skip
    """Yield each file once its dataset is written, and None regularly to report progress.

    ``wrote`` is called with numbers of changes that were written, approximately as long as their
    dataset is being written. Raises ``Cancelled`` and what ``PartWriter.write`` raises.
    """
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    tag = f"replview-{secrets.token_hex(6)}"
    stopped = threading.Event()
    staging = f"{layout.staging_folder(writer.part_of)}-{secrets.token_hex(4)}"
    datasets = [
        _Dataset(spark, dsn, writer, each, f"{staging}/{number}", tag, stopped)
        for number, each in enumerate(_by_dataset(parts))
    ]
    pool = ThreadPoolExecutor(_SIDE_BY_SIDE, "replview-export")
    waiting = {pool.submit(each.written): each for each in datasets}
    try:
        while waiting:
            ended, _ = wait(waiting, _LOOK_SECONDS, FIRST_COMPLETED)
            if cancelled():
                raise Cancelled
            for one in ended:
                files = one.result()
                waiting.pop(one).progress.end(wrote)
                yield from files
            for dataset in waiting.values():
                dataset.progress.look(wrote)
            yield None
    finally:
        stopped.set()
        if waiting:
            pool.shutdown(wait=False, cancel_futures=True)
            _end(spark, tag, set(waiting))
        pool.shutdown(wait=False)
        _clear(writer.target, staging)


def _by_dataset(parts: Sequence[FilePart]) -> list[tuple[FilePart, ...]]:
    """Return the files of each dataset."""
    found: dict[tuple[str, int | None], list[FilePart]] = {}
    for part in parts:
        found.setdefault((part.dataset, part.relation_id), []).append(part)
    return [tuple(each) for each in found.values()]


def _end(spark: Any, tag: str, running: set[Future[Any]]) -> None:
    """Cancel all jobs of an export, and wait until they have ended."""
    until = time.monotonic() + _ENDS_WITHIN_SECONDS
    while running and time.monotonic() < until:
        try:
            # Do it again, as a job may have begun meanwhile.
            if by_connect(spark):
                spark.interruptTag(tag)
            else:
                spark.sparkContext.cancelJobsWithTag(tag)
        except Exception as error:
            # Spark has ended, and its jobs with it; the error that ended the export is raised.
            log.warning("Spark's jobs could not be cancelled (%s)", type(error).__name__)
            return
        running = wait(running, _LOOK_SECONDS).not_done


def _clear(target: Target, staging: str) -> None:
    """Delete what Spark wrote and nobody moved; the next export into the folder tries again."""
    try:
        target.delete_folder(staging)
    except TargetProblem as problem:
        log.warning("%s is left behind: %s", staging, problem.cause)


@dataclass(frozen=True)
class _Dataset:
    """One dataset's files, which one job of Spark writes into a folder of their own."""

    spark: Any
    dsn: str | None
    writer: PartWriter
    parts: tuple[FilePart, ...]
    #: The folder in the target that Spark writes to.
    folder: str
    tag: str
    #: Set when the export has ended.
    stopped: threading.Event

    @cached_property
    def progress(self) -> "_Progress":
        """Return how far the job has come."""
        return _Progress(self.spark, self.folder, sum(part.within.rows for part in self.parts))

    def written(self) -> list[WrittenFile]:
        """Write, measure and move the files."""
        # Job tags belong to this thread. (A session's tags can be cancelled by their thread only.)
        if by_connect(self.spark):
            self.spark.addTag(self.tag)
        else:
            self.spark.sparkContext.addJobTag(self.tag)
            self.spark.sparkContext.setJobGroup(self.folder, "an export of replview")
        try:
            self._write()
            staged = self._staged()
            measured = self._measured(staged)
        except Exception as error:
            raise _problem(error) from error
        for part in measured:
            if self.stopped.is_set():
                raise Cancelled
            self.writer.target.move(staged[part.path], part.path)
        return measured

    def _write(self) -> None:
        url = self.writer.target.url
        reader = self.spark.read.format("replview").option("files", self._plan.to_json())
        reader = reader if self.dsn is None else reader.option("dsn", self.dsn)
        options = {**_OPTIONS, **spark_settings(url)}
        writer = reader.load().write.options(**options).partitionBy(PARTITION)
        writer.parquet(f"{spark_address(url)}/{self.folder}")

    @property
    def _plan(self) -> PlannedFiles:
        relation = self.parts[0].relation_id
        table = None if relation is None else self.writer.tables[relation]
        return PlannedFiles(self.writer.part_of, table, self.parts)

    def _staged(self) -> dict[str, str]:
        """Return the path of each planned file → the path at which Spark wrote it."""
        found = {}
        for file in self.writer.target.files(self.folder, deep=True):
            if number := _NUMBER.search(file.path):
                found[self.parts[int(number[1])].path] = file.path
        if not found and any(part.within.rows for part in self.parts):
            raise TargetProblem(
                "what Spark's executors wrote is not there: they see another disk",
                "choose a target that all machines share, such as an object store",
            )
        for part in self.parts:
            if part.path not in found:
                # Spark writes no file for a partition without rows.
                check_rows(0, part)
        return found

    def _measured(self, staged: Mapping[str, str]) -> list[WrittenFile]:
        """Count and hash the files, each in a task of Spark."""
        plan, url = self._plan, self.writer.target.url

        def measure(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            writer = PartWriter(plan.part_of, plan.tables, Target.of(url))
            for number, path in ((one["n"], one["path"]) for b in batches for one in b.to_pylist()):
                with raise_for_driver():
                    found = writer.measured(plan.parts[number], path)
                yield pa.RecordBatch.from_pydict({"written": [orjson.dumps(found).decode()]})

        places = [(n, staged[part.path]) for n, part in enumerate(self.parts)
                  if part.path in staged]  # fmt: skip
        frame = self.spark.createDataFrame(places, "n int, path string").repartition(len(places))
        lines = frame.mapInArrow(measure, "written string").collect()
        return [WrittenFile(**orjson.loads(line[0])) for line in lines]


@dataclass
class _Progress:
    """The share of a dataset's tasks that have ended, in changes."""

    spark: Any
    group: str
    changes: int
    _told: int = field(default=0)

    def look(self, wrote: Callable[[int], None]) -> None:
        """Tell what was written since the last look; nothing by Connect, which does not say it."""
        if by_connect(self.spark):
            return
        tracker, tasks, ended = self.spark.sparkContext.statusTracker(), 0, 0
        for job in tracker.getJobIdsForGroup(self.group):
            stages = getattr(tracker.getJobInfo(job), "stageIds", ())
            for stage in filter(None, map(tracker.getStageInfo, stages)):
                tasks, ended = tasks + stage.numTasks, ended + stage.numCompletedTasks
        if tasks:
            self._tell(self.changes * ended // tasks, wrote)

    def end(self, wrote: Callable[[int], None]) -> None:
        """Tell that everything is written."""
        self._tell(self.changes, wrote)

    def _tell(self, reached: int, wrote: Callable[[int], None]) -> None:
        if reached > self._told:
            wrote(reached - self._told)
            self._told = reached


def _problem(error: BaseException) -> BaseException:
    """Return the problem that a task reported, or that an error of Spark means."""
    text = str(error)
    if (told := problem_in(text)) is not None:
        return told
    if lacking := _MISSING.search(text):
        return SparkProblem(
            f"the Python of Spark's executors has no {lacking[1]}",
            "install it there: pip install 'psycopg[binary]' pyarrow orjson xxhash",
        )
    if (connector := missing_connector(error)) is not None:
        return connector
    if failed := _OF_FILES.findall(text):
        return problem_of(OSError(failed[-1]))
    return error
