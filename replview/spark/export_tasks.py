"""The same writer in Spark's executors: one task a file, on threads, a cluster or by Connect.

What travels are plans and what was written; rows go from the store to the file and never through
the JVM, so that the bytes are those of a plain process.
"""

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import orjson
import psycopg
import pyarrow as pa

from replview.parquet.reading import connect
from replview.parquet.reading.connecting import StoreProblem
from replview.parquet.slices import Slice, SliceTable
from replview.parquet.writing.files import Part, PartWriter, Written
from replview.parquet.writing.layout import incarnation_folder
from replview.parquet.writing.problems import Cancelled, TargetProblem
from replview.parquet.writing.targets import Target
from replview.spark.sessions import SparkProblem, by_connect

_LOOK_SECONDS = 0.5
#: How often finished files are looked for, on object stores less often.
_COUNT_SECONDS = 1.0
_COUNT_ELSEWHERE_SECONDS = 10.0
_MISSING = re.compile(r"No module named '(\w+)")
#: Spark ends a cancelled task's Python after two seconds.
_KILLED_SECONDS = 4.0


def write_parts(
    session: Any, writer: PartWriter, parts: Sequence[Part], dsn: str | None,
    cancelled: Callable[[], bool],
) -> Iterator[Written | None]:  # fmt: skip
    """Each file when it is seen to be there, and again, with its checksum, once all are written;
    None whenever there is something to look at.

    ``session`` may be a context alone, which is quicker to begin. Raises what
    ``PartWriter.write`` raises, wherever it ran.
    """
    lines: list[str] = []
    failed: list[BaseException] = []
    tasks = _Tasks(session, f"replview-{secrets.token_hex(6)}")

    def run() -> None:
        try:
            lines.extend(tasks.run(_Task.of(writer, parts, dsn), len(parts)))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="replview-export", daemon=True)
    appearing = _Appearing(writer, parts)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_LOOK_SECONDS)
            if cancelled():
                raise Cancelled
            yield from appearing.files()
            yield None
    finally:
        if thread.is_alive():
            tasks.cancel()
            thread.join(_KILLED_SECONDS)
            time.sleep(_KILLED_SECONDS)
    if failed:
        raise _lacking(failed[0]) or failed[0]
    yield from _results(lines, writer)


def _lacking(error: BaseException) -> SparkProblem | None:
    """Spark's Python is another's, and has not all that a task imports."""
    found = _MISSING.search(str(error))
    if found is None:
        return None
    return SparkProblem(
        f"the Python of Spark's executors has no {found[1]}",
        "install it there: pip install 'psycopg[binary]' pyarrow orjson",
    )


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


def _results(lines: Sequence[Any], writer: PartWriter) -> Iterator[Written]:
    results = [orjson.loads(line) for line in lines]
    for result in results:
        if "problem" in result:
            kind = StoreProblem if result["of"] == "store" else TargetProblem
            raise kind(result["problem"], result["remedy"])
    for result in results:
        written = Written(**result)
        if writer.target.size(written.path) != written.bytes:
            raise TargetProblem(
                "what Spark's executors wrote is not there: they see another disk",
                "choose a target that all machines share, such as an object store",
            )
        yield written


class _Tasks:
    """One Python task a file: as plain tasks, which begin in half the time that a query takes to be
    planned, or, where Spark Connect knows queries alone, as one.
    """

    def __init__(self, session: Any, tag: str) -> None:
        self._session = session
        self._tag = tag
        self._context = None if by_connect(session) else getattr(session, "sparkContext", session)

    def run(self, task: "_Task", number: int) -> list[str]:
        """What each of them tells; to be called in a thread of its own, whose tag it is."""
        if self._context is None:
            self._session.addTag(self._tag)
            numbers = self._session.range(0, number, 1, number)
            return [row[0] for row in numbers.mapInArrow(task, "written string").collect()]
        self._context.addJobTag(self._tag)
        lines: list[str] = (
            self._context.parallelize(range(number), number).map(task.write).collect()
        )
        return lines

    def cancel(self) -> None:
        if self._context is None:
            self._session.interruptTag(self._tag)
        else:
            self._context.cancelJobsWithTag(self._tag)


@dataclass(frozen=True)
class _Task:
    """What an executor is sent: it writes the files of the numbers it is given, and tells of each
    in a line of JSON what was written, or the problem.
    """

    part_of: dict[str, Any]
    tables: dict[int, dict[str, Any]]
    url: str
    parts: list[Part]
    dsn: str | None

    @classmethod
    def of(cls, writer: PartWriter, parts: Sequence[Part], dsn: str | None) -> Self:
        tables = {relation: table.to_json() for relation, table in writer.tables.items()}
        return cls(writer.part_of.to_json(), tables, writer.target.url, list(parts), dsn)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """By a query: a line a file."""
        for batch in batches:
            results = [self.write(number) for number in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"written": results})

    def write(self, number: int) -> str:
        try:
            tables = {n: SliceTable.from_json(problem) for n, problem in self.tables.items()}
            writer = PartWriter(Slice.from_json(self.part_of), tables, Target.of(self.url))
            # Where a task runs a second time, its file may be there already.
            part = self.parts[number]
            written = writer.finished(part)
            if written is None:
                with connect(self.dsn) as connection:
                    written = writer.write(connection, part)
            return orjson.dumps(written).decode()
        except (StoreProblem, TargetProblem) as error:
            of = "store" if isinstance(error, StoreProblem) else "target"
            problem = {"of": of, "problem": error.cause, "remedy": error.remedy}
            return orjson.dumps(problem).decode()
        except psycopg.Error as error:
            # Its words may hold values: Spark shows what a task raised, and tries it again.
            raise RuntimeError(f"the store stopped answering ({error.sqlstate})") from None
