"""``lake run|status|maintain`` among the jobs: feed, show and maintain the tables of a lake."""

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson

from replview.spark.exit_statuses import DONE, GAP, NOTHING_NEW
from replview.spark.lake.formats import FORMATS, connector_settings
from replview.spark.quoting import spark_address
from replview.spark.sessions import SparkProblem, by_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replview.spark.lake.feeding import Feed

ACTIONS = ("run", "status", "maintain")


def add_lake(commands: Any) -> None:
    """Add the parser of ``lake``; ``whole`` is its function, which prints its own result."""
    parser = commands.add_parser(
        "lake",
        help="maintain tables in Delta or Iceberg: every change, and the rows as they are now",
        description="Experimental: do not rely on 'current' alone yet. "
        "Append what is stored now to the lake's 'changes' and merge it into "
        "'current' (run), say how far they are (status), or compact them (maintain). The store's "
        "address is in REPLVIEW_STORE_URL.",
    )
    parser.set_defaults(whole=run, settings=settings, json=False)
    parser.add_argument("action", choices=ACTIONS)
    parser.add_argument("--root", required=True, metavar="URL", help="folder of the lake")
    parser.add_argument("--format", required=True, choices=[*FORMATS])
    parser.add_argument("--slot", required=True, metavar="SOURCE/SLOT")
    parser.add_argument("--table", required=True, action="append", metavar="SCHEMA.TABLE",
                        help="may be repeated")  # fmt: skip
    parser.add_argument("--changes", type=int, default=1_000_000, metavar="NUMBER",
                        help="of one batch, about (default: 1000000)")  # fmt: skip
    parser.add_argument("--archive", metavar="URL", help="has what the store deleted")
    parser.add_argument("--connector", metavar="COORDINATES", help="Maven's, or 'none' if Spark "
                        "has the connector (default: the one for this Spark)")  # fmt: skip
    parser.add_argument("--spark", metavar="URL", help="local[2], spark://… (default: the "
                        "environment's, else this machine)")  # fmt: skip


def settings(options: argparse.Namespace) -> dict[str, str]:
    """Return the settings that the session needs. Raises ``SparkProblem``."""
    root = spark_address(options.root)
    return connector_settings(FORMATS[options.format], root, options.connector)


def run(spark: "SparkSession", options: argparse.Namespace) -> int:
    """Do the action for each table, print a line of JSON for it, and return the exit status.

    Raises ``SparkProblem``.
    """
    from replview.parquet.reading import StoreProblem

    if by_connect(spark):
        raise SparkProblem(
            "a lake cannot be fed by Spark Connect",
            "name a cluster (spark://…) or this machine (local[2]) with --spark",
        )
    statuses = []
    try:
        for feed in _feeds(spark, options):
            status, facts = _done(feed, options.action)
            statuses.append(status)
            sys.stdout.write(orjson.dumps({"table": feed.lake.relation, **facts}).decode() + "\n")
    except StoreProblem as error:
        raise SparkProblem(error.cause, error.remedy) from error
    if GAP in statuses:
        return GAP
    return NOTHING_NEW if all(status == NOTHING_NEW for status in statuses) else DONE


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
        yield Feed(lake, options.changes, more)


def _done(feed: "Feed", action: str) -> tuple[int, dict[str, Any]]:
    """Do the action for one table; return its exit status and what to print."""
    from replview.spark.lake.maintenance import maintain

    if action == "maintain":
        maintain(feed.lake)
        return DONE, {}
    if action == "status":
        return DONE, feed.status()
    fed = feed.run()
    facts = {"reached": fed.reached, "batches": fed.batches, "gaps": fed.gaps}
    if fed.no_current:
        facts["no_current"] = fed.no_current
    return GAP if fed.gaps else DONE if fed.batches else NOTHING_NEW, facts
