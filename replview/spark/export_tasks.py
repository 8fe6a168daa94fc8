"""An export on Spark: executors read the store in partitions, each the rows of one file, and write
them.

The planner and the writer are those of a plain process. A dataset is a frame of
``format("replview")``, whose option ``files`` names the files that were planned; ``mapInArrow``
writes each of them in the task that read its rows, so that they keep their order and the bytes are
those of a plain process, on threads, on a cluster or by Connect. What comes back is what was
written.
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
from replview.parquet.writing.files import Part, PartWriter, Written, check_rows
from replview.parquet.writing.layout import incarnation_folder
from replview.parquet.writing.problems import Cancelled, TargetProblem
from replview.spark.planned_files import PlannedFiles, told_in
from replview.spark.sessions import SparkProblem, by_connect, session

_LOOK_SECONDS = 0.5
#: How often finished files are looked for, on object stores less often.
_COUNT_SECONDS = 1.0
_COUNT_ELSEWHERE_SECONDS = 10.0
#: Datasets at the same time: Spark plans one while others are written.
_SIDE_BY_SIDE = 4
_MISSING = re.compile(r"No module named '(\w+)")
#: Spark ends a cancelled task's Python after two seconds.
_KILLED_SECONDS = 4.0


def _problem(error: BaseException) -> BaseException:
    """What a task told; else the error itself."""
    text = str(error)
    if (told := told_in(text)) is not None:
        return told
    if lacking := _MISSING.search(text):
        return SparkProblem(
            f"the Python of Spark's executors has no {lacking[1]}",
            "install it there: pip install 'psycopg[binary]' pyarrow orjson",
        )
    return error


@contextmanager
def writing(where: str | None, name: str) -> Iterator[WriteParts | None]:
    """What writes files on Spark ``where`` a job says, as long as that runs; None: nowhere.

    ``default``: where spark-submit and the environment say. Raises ``SparkProblem``.
    """
    if not where:
        yield None
        return
    # A driver of this machine that passes a few plans on is better off starting than running fast.
    settings = {} if where.startswith("sc://") else {"spark__driver__memory": "1g"}
    if where.startswith("local"):
        settings["spark__driver__extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = session(None if where == "default" else where, name=name, **settings)
    try:
        yield partial(write_parts, spark)
    finally:
        spark.stop()


def write_parts(
    spark: Any, writer: PartWriter, parts: Sequence[Part], dsn: str | None,
    cancelled: Callable[[], bool],
) -> Iterator[Written | None]:  # fmt: skip
    """Each file when it is seen to be there, and again, with its checksum, once its dataset is
    written; None whenever there is something to look at.

    Raises what ``PartWriter.write`` raises, wherever it ran.
    """
    datasets: dict[tuple[str, int | None], list[Part]] = {}
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
    """Spark's jobs, one a dataset, and one task of each a file."""

    spark: Any
    dsn: str | None
    writer: PartWriter
    tag: str

    def written(self, parts: Sequence[Part]) -> list[Written]:
        """The files of one dataset."""
        relation = parts[0].relation_id
        table = None if relation is None else self.writer.tables[relation]
        files, url = PlannedFiles(self.writer.part_of, table, tuple(parts)), self.writer.target.url

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for each in files.write(url, batches):
                yield pa.RecordBatch.from_pydict({"written": [orjson.dumps(each).decode()]})

        # Of this thread alone. (A session's own tags are cancelled by the thread that set them.)
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
        found = [Written(**orjson.loads(line[0])) for line in lines]
        self._check(found, parts)
        return found

    def _check(self, found: Sequence[Written], parts: Sequence[Part]) -> None:
        for each in found:
            if self.writer.target.size(each.path) != each.bytes:
                raise TargetProblem(
                    "what Spark's executors wrote is not there: they see another disk",
                    "choose a target that all machines share, such as an object store",
                )
        missing = {part.path for part in parts} - {each.path for each in found}
        for part in parts:
            if part.path in missing:
                # Of no rows there is no task that knows whose they are.
                check_rows(0, part)

    @property
    def _context(self) -> Any:
        """None by Connect, which has none."""
        return None if by_connect(self.spark) else self.spark.sparkContext

    def cancel(self) -> None:
        if self._context is None:
            self.spark.interruptTag(self.tag)
        else:
            self._context.cancelJobsWithTag(self.tag)


class _Appearing:
    """Files as they come: an executor tells of them only when its task has ended, and a file has
    its name only when it is whole. Where executors write to another disk none is seen.
    """

    def __init__(self, writer: PartWriter, parts: Sequence[Part]) -> None:
        self._writer = writer
        there = self._sizes()
        self._wanted = {part.path: part for part in parts if part.path not in there}
        local = writer.target.is_local
        self._every_seconds = _COUNT_SECONDS if local else _COUNT_ELSEWHERE_SECONDS
        self._next = time.monotonic() + self._every_seconds

    def without(self, written: list[Written]) -> list[Written]:
        """These, of which nothing more is told."""
        for each in written:
            self._wanted.pop(each.path, None)
        return written

    def files(self) -> Iterator[Written]:
        """Those not told of yet."""
        if time.monotonic() < self._next:
            return
        for path, size in self._sizes().items():
            if (part := self._wanted.pop(path, None)) is not None:
                rows = part.within.rows
                yield Written(path=path, dataset=part.dataset, rows=rows, changes=rows, bytes=size,
                              sha256="")  # fmt: skip
        self._next = time.monotonic() + self._every_seconds

    def _sizes(self) -> dict[str, int]:
        folder = incarnation_folder(self._writer.part_of)
        return {each.path: each.bytes for each in self._writer.target.files(folder, deep=True)}
