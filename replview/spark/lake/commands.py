"""``lake run|status|maintain|erase`` as a job: feed, show, maintain the tables of a lake, or erase.

``replview lake`` starts it in a process of its own; spark-submit can start it on a cluster.
Standard output has one line of JSON when a table begins (``{"table", "state": "running"}``), one
before the first and after each batch of a run (with ``reached``, ``batches``, and ``changes`` that
were read ``of`` those to read), and one when it ends (``idle`` with what is known of it now, or
``failed`` with problem and remedy).
"""

import argparse
import logging
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from replview.parquet.job_process import problem_of, say
from replview.spark.exit_statuses import DONE, FAILED, GAP, NOTHING_NEW
from replview.spark.lake.formats import FORMATS, connector_settings
from replview.spark.quoting import spark_address, spark_settings
from replview.spark.sessions import SparkProblem, by_connect, naming_connectors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replview.spark.lake.feeding import Fed, Feed
    from replview.spark.lake.tables import LakeTable

ACTIONS = ("run", "status", "maintain", "erase")
log = logging.getLogger("replview.lake")
_UNEXPECTED = "the log of the run names the place; run it again, and report it if it fails again"


def add_lake(commands: Any) -> None:
    """Add the parser of ``lake``; ``whole`` is its function, which prints its own result."""
    parser = commands.add_parser(
        "lake",
        help="maintain tables in Delta or Iceberg: every change, and the rows as they are now",
        description="Append what is stored now to the lake's 'changes' and merge it into "
        "'current' (run), say how far they are (status), compact them (maintain), or erase rows "
        "(erase). The store's address is in REPLVIEW_STORE_URL.",
    )
    parser.set_defaults(whole=run, settings=settings, json=True)
    parser.add_argument("action", choices=ACTIONS)
    parser.add_argument("--root", required=True, metavar="URL", help="folder of the lake")
    parser.add_argument("--format", required=True, choices=[*FORMATS])
    parser.add_argument("--slot", required=True, metavar="SOURCE/SLOT")
    parser.add_argument("--table", required=True, action="append", metavar="SCHEMA.TABLE",
                        help="may be repeated")  # fmt: skip
    parser.add_argument("--changes", type=int, default=1_000_000, metavar="NUMBER",
                        help="of one batch, about (default: 1000000)")  # fmt: skip
    parser.add_argument("--follow", type=float, metavar="SECONDS", help="with run: run again so "
                        "long after each run, until it is stopped or fails")  # fmt: skip
    parser.add_argument("--erasure", metavar="FILE", help="with erase: the rows, as JSON; "
                        "'replview erase' writes it")  # fmt: skip
    parser.add_argument("--archive", metavar="URL", help="has what the store deleted")
    parser.add_argument("--connector", metavar="COORDINATES", help="Maven's, or 'none' if Spark "
                        "has the connector (default: the one for this Spark)")  # fmt: skip
    parser.add_argument("--spark", metavar="URL", help="local[2], spark://… (default: the "
                        "environment's, else this machine)")  # fmt: skip


def settings(options: argparse.Namespace) -> dict[str, str]:
    """Return the settings that the session needs. Raises ``SparkProblem``."""
    root = spark_address(options.root)
    server = {f"spark.hadoop.{name}": text for name, text in spark_settings(options.root).items()}
    return {**connector_settings(FORMATS[options.format], root, options.connector), **server}


def run(spark: "SparkSession", options: argparse.Namespace) -> int:
    """Do the action for each table, and return the exit status.

    A table that fails does not keep the others from their turn. Raises ``SparkProblem``.
    """
    if by_connect(spark):
        raise SparkProblem(
            "a lake cannot be fed by Spark Connect",
            "name a cluster (spark://…) or this machine (local[2]) with --spark",
        )
    while True:
        statuses = [_report(feed, options) for feed in _feeds(spark, options)]
        if options.follow is None or FAILED in statuses:
            break
        time.sleep(options.follow)
    for status in (FAILED, GAP):
        if status in statuses:
            return status
    return NOTHING_NEW if all(status == NOTHING_NEW for status in statuses) else DONE


def _report(feed: "Feed", options: argparse.Namespace) -> int:
    """Do the action for one table and print what it gave; return its exit status."""
    table = feed.lake.relation
    say({"table": table, "state": "running"})
    try:
        with naming_connectors():
            status, facts = _done(feed, options)
    except Exception as error:
        problem = problem_of(error, log, what="the lake", unexpected=_UNEXPECTED)
        say({"table": table, "state": "failed", **problem})
        return FAILED
    say({"table": table, "state": "idle", **facts})
    return status


def _feeds(spark: "SparkSession", options: argparse.Namespace) -> "Iterator[Feed]":
    from replview.spark.lake.feeding import Feed
    from replview.spark.lake.tables import LakeTable

    source, between, slot = options.slot.partition("/")
    if not between:
        raise SparkProblem(f"{options.slot!r} names no slot", "write it as SOURCE/SLOT")
    more = {"archive": options.archive} if options.archive else {}
    for table in options.table:
        lake = LakeTable(
            spark, FORMATS[options.format], spark_address(options.root), source, slot, table
        )
        yield Feed(lake, options.changes, more, partial(_say_progress, table))


def _say_progress(table: str, fed: "Fed") -> None:
    """Print how far a run of a table has come; nothing where there is nothing to read."""
    if of := max(fed.of_changes, fed.changes):
        say({"table": table, "state": "running", "reached": fed.reached, "batches": fed.batches,
             "changes": fed.changes, "of": of})  # fmt: skip


def _done(feed: "Feed", options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Do the action for one table; return its exit status and what to print."""
    from replview.spark.lake.maintenance import maintain

    action = options.action
    if action == "erase":
        return DONE, {"erased": _erase(feed, options.erasure), "sizes": _sizes(feed.lake)}
    if action == "maintain":
        maintain(feed.lake)
        return DONE, {"sizes": _sizes(feed.lake)}
    if action == "status":
        return DONE, {**feed.status(), "sizes": _sizes(feed.lake)}
    fed = feed.run()
    facts = {"reached": fed.reached, "batches": fed.batches, "gaps": fed.gaps,
             "no_current": fed.no_current, "sizes": _sizes(feed.lake)}  # fmt: skip
    return GAP if fed.gaps else DONE if fed.batches else NOTHING_NEW, facts


def _erase(feed: "Feed", path: str | None) -> dict[str, int]:
    """Erase the rows that a file names; return how many rows of how many files had them."""
    from replview.spark.lake.erasing import LakeErasure, erase

    if path is None:
        raise SparkProblem("no rows are named", "give --erasure FILE")
    document = orjson.loads(Path(path).read_bytes())
    wanted = LakeErasure.from_json(document, feed.lake.relation)
    return erase(feed.lake, feed.settle(), wanted)


def _sizes(lake: "LakeTable") -> dict[str, dict[str, int]]:
    """Return the rows, files and bytes of both tables."""
    from replview.spark.lake.tables import CHANGES, CURRENT

    return {kind: lake.size(kind) for kind in (CHANGES, CURRENT)}
