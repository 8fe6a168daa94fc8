"""``python -m replview.spark JOB …``: a Spark job in a process of its own, here or by spark-submit.

The result is all that stands on standard output, Spark's log on standard error. What was wrong is
said in the last line there, with what mends it; the exit status is 1, and 2 for wrong options. With
``--json`` standard output tells what was wrong, too: ``{"problem", "remedy"}``.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson

from replview.parquet.writing.problems import TargetProblem
from replview.spark.history.commands import add_jobs, compute
from replview.spark.history.datasets import Incarnation
from replview.spark.history.results import as_json, as_table, check_output, write
from replview.spark.sessions import SparkProblem, naming_connectors, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Changes of one increment, about.
_INCREMENT = 2_000_000


def add_archive(commands: Any) -> None:
    """The command's parser; ``whole`` is its function, which tells itself what it did."""
    parser = commands.add_parser(
        "archive",
        help="have what is stored go to an archive, and go on where the last run ended",
        description="Write all of a slot's history that is not in the archive yet. The store's "
        "address is in REPLVIEW_STORE_URL.",
    )
    parser.set_defaults(whole=run, json=False)
    parser.add_argument("--target", required=True, metavar="URL", help="the archive's root")
    parser.add_argument("--slot", metavar="SOURCE/SLOT", help="which (default: the only one)")
    parser.add_argument("--changes", type=int, default=_INCREMENT, metavar="NUMBER", help="of one "
                        "increment, about (default: 2000000)")  # fmt: skip
    parser.add_argument("--spark", metavar="URL", help="local[2], spark://… (default: the "
                        "environment's, else this machine)")  # fmt: skip


def run(spark: "SparkSession", options: argparse.Namespace) -> None:
    """Archive what is stored now, and say how far that is. Raises ``SparkProblem``,
    ``TargetProblem``.
    """
    # Jobs over files need no psycopg, and a cluster may have none.
    from replview.parquet.reading import StoreProblem
    from replview.spark.archive_streaming import archive

    try:
        done = archive(spark, options.target, options.slot, changes=options.changes)
    except StoreProblem as error:
        raise SparkProblem(error.cause, error.remedy) from error
    told = ", ".join(f"life {number} up to commit_seq {seq}" for number, seq in done.items())
    sys.stdout.write(f"archived: {told or 'nothing is new'}\n")


def parser(prog: str = "python -m replview.spark") -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog=prog,
        description="Jobs over changes that were exported as Parquet, by Spark: on this machine or "
        "a cluster.",
    )
    commands = found.add_subparsers(dest="name", metavar="JOB", required=True)
    add_jobs(commands)
    add_archive(commands)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run one job; gives the exit status."""
    known = parser()
    options = known.parse_args(argv)
    for name in ("limit", "top"):
        if getattr(options, name, 1) < 1:
            known.error(f"--{name} is a number above zero")
    os.environ["TZ"] = "UTC"
    time.tzset()
    # Told to end (a page's button, a worker that stops): the JVM goes along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        _run(options)
    except (SparkProblem, TargetProblem) as error:
        print(f"replview: {error.cause}: {error.remedy}", file=sys.stderr)
        if options.json:
            answer = {"problem": error.cause, "remedy": error.remedy}
            sys.stdout.write(orjson.dumps(answer).decode() + "\n")
        return 1
    return 0


def check(options: argparse.Namespace) -> None:
    """What can be told without Spark, which takes its time to start."""
    if "whole" in options:
        return
    incarnation = Incarnation.find(options.root, options.life)
    named = getattr(options, "table", None) or ()
    for name in [named] if isinstance(named, str) else named:
        incarnation.table(name)
    if options.output:
        check_output(options.output, options.spark)


def _run(options: argparse.Namespace) -> None:
    check(options)
    spark = session(options.spark, name=f"replview {options.name}")
    try:
        if "whole" in options:
            options.whole(spark, options)
            return
        with naming_connectors():
            result = compute(spark, options)
            if options.output:
                print(f"written to {write(result, options.output)}", file=sys.stderr)
            shown = (as_json if options.json else as_table)(result, options.limit)
        print(shown, flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
