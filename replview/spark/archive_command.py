"""The archive's stream as a command of ``python -m replview.spark``."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from replview.spark.sessions import SparkProblem

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
        raise SparkProblem(error.problem, error.remedy) from error
    told = ", ".join(f"life {life} up to commit_seq {seq}" for life, seq in done.items())
    sys.stdout.write(f"archived: {told or 'nothing is new'}\n")
