"""``python -m replview.spark JOB …`` runs a Spark job in a process of its own or by spark-submit.

Standard output has only the result. Standard error is the log: ``{"answered_by", "rows_read"}`` in
a line, then Spark's lines, and if the job fails a last one with the problem and its remedy. The
exit status is 0 for success, 1 for a failure, 2 if nothing is new for a lake, 3 for a gap (in the
store for a lake, in the data for an answer, which then gives the reasons), and 64 for wrong
options. With ``--json`` standard output has the problem too: ``{"problem", "remedy"}``.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any, NoReturn

import orjson

from replview.spark.exit_statuses import DONE, FAILED, GAP, WRONG_USE
from replview.spark.history.commands import Question, add_jobs
from replview.spark.history.engines import Session, by_duckdb, duckdb
from replview.spark.history.results import as_json, as_table, check_output, write
from replview.spark.lake.commands import add_lake
from replview.spark.sessions import naming_connectors, session
from replview.text.problem import CodedProblem

if TYPE_CHECKING:
    from replview.spark.history.duckdb_session import DuckSession


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Report wrong options with status 64, because argparse's 2 has another meaning here."""
        self.print_usage(sys.stderr)
        self.exit(WRONG_USE, f"{self.prog}: error: {message}\n")


class _NoPandas(MetaPathFinder):
    """An importer without pandas, which pyarrow would load (0.3 s) to look for its arrays."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Raise ``ModuleNotFoundError`` for pandas, and leave other modules to other importers."""
        if fullname == "pandas":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


#: Exit status after SIGTERM.
_TERMINATED = 143
#: Seconds between two interrupts of a query.
_AGAIN_SECONDS = 0.05


def parser(prog: str = "python -m replview.spark", *, lake: bool = True) -> argparse.ArgumentParser:
    """Return the parser of all jobs; without ``lake``, of those that ``replview spark`` runs."""
    found = _Parser(
        prog=prog,
        description="Jobs over changes that were exported as Parquet, by Spark: on this machine or "
        "a cluster.",
    )
    commands = found.add_subparsers(dest="name", metavar="JOB", required=True)
    add_jobs(commands)
    if lake:
        add_lake(commands)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run one job; return the exit status."""
    known = parser()
    options = known.parse_args(argv)
    for name in ("limit", "top"):
        if getattr(options, name, 1) < 1:
            known.error(f"--{name} is a number above zero")
    os.environ["TZ"] = "UTC"
    time.tzset()
    signal.signal(signal.SIGTERM, _exit_on_sigterm)
    try:
        return _run(options)
    except CodedProblem as error:
        print(f"replview: {error.cause}: {error.remedy}", file=sys.stderr)
        if options.json:
            answer = {"problem": error.cause, "remedy": error.remedy}
            sys.stdout.write(orjson.dumps(answer).decode() + "\n")
        return FAILED


def _exit_on_sigterm(*_: object) -> NoReturn:
    """Exit on SIGTERM, so that the files of a query and the JVM are removed."""
    # Ignore further signals, so that the clean-up is complete.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(_TERMINATED)


def check(options: argparse.Namespace) -> Question:
    """Check the options as far as possible without an engine, which takes time to start."""
    question = Question.of(options)
    if options.output:
        check_output(options.output, options.spark)
    return question


def _run(options: argparse.Namespace) -> int:
    if "whole" in options:
        with _spark(options) as spark:
            status: int = options.whole(spark, options)
            return status
    if options.slot is not None:
        # Import here, since a job over files needs nothing that reads the store.
        from replview.spark.history.record import read_record

        with read_record(options) as options.root:
            return _asked(options)
    return _asked(options)


def _asked(options: argparse.Namespace) -> int:
    question = check(options)
    rows = question.rows()
    here = by_duckdb(rows, options.spark_above)
    engine = "DuckDB" if here else "Spark"
    reading = {"answered_by": engine, "rows_read": rows}
    # The worker reads this line while the job runs.
    print(orjson.dumps(reading).decode(), file=sys.stderr, flush=True)
    if here:
        return _apart(question, lambda duckdb: _answered(options, question, duckdb, reading))
    with _spark(options) as spark:
        return _answered(options, question, spark, reading)


def _answered(
    options: argparse.Namespace, question: Question, session_: Session, reading: dict[str, Any]
) -> int:
    with naming_connectors():
        result = question.answer(session_)
        result = replace(result, details={**result.details, **reading})
        if options.output:
            # Compute the rows once for both the file and the display.
            result.frame.persist()
            print(f"written to {write(result, options.output)}", file=sys.stderr)
        shown = (as_json if options.json else as_table)(result, options.limit)
        print(shown, flush=True)
    return DONE if result.complete else GAP


def _apart(question: Question, answered: Callable[["DuckSession"], int]) -> int:
    """Answer with DuckDB in a thread of its own.

    An exit that a signal raises inside DuckDB's code would end the process and leave its files.
    """
    if __name__ == "__main__":
        sys.meta_path.insert(0, _NoPandas())
    begun: list[DuckSession] = []

    def answer() -> int:
        with _duckdb(question) as session_:
            begun.append(session_)
            return answered(session_)

    # The thread inherits the mask: a signal that it received would not wake this one, which waits.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(answer)
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return running.result()
        except (SystemExit, KeyboardInterrupt):
            while not running.done():
                for session_ in begun:
                    session_.interrupt()
                wait([running], _AGAIN_SECONDS)
            raise


@contextmanager
def _spark(options: argparse.Namespace) -> Iterator[Session]:
    settings = options.settings(options) if "settings" in options else {}
    spark = session(options.spark, name=f"replview {options.name}", **settings)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _duckdb(question: Question) -> Iterator["DuckSession"]:
    with (
        tempfile.TemporaryDirectory(prefix="replview-history-") as folder,
        duckdb(folder, question.incarnation.root) as connection,
    ):
        yield connection


if __name__ == "__main__":
    sys.exit(main())
