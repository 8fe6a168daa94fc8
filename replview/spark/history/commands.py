"""The history jobs as commands: their options, and what they print or write."""

import argparse
import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from decoder.scalars import LSN
from replview.spark.history.datasets import Incarnation, Moment
from replview.spark.history.results import Result, without_masked
from replview.spark.sessions import SparkProblem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replview.spark.history.reach import Span

#: What changes are counted by.
PERIODS = ("minute", "hour", "day", "week", "month")


#: Command → what it shows, the groups of options it takes.
JOBS: dict[str, tuple[str, tuple[str, ...]]] = {
    "as-of": ("a table as it was at a commit LSN or time", ("table", "moment")),
    "row-versions": (
        "every state of a table's rows, from when to when (SCD type 2)",
        ("table", "moment"),
    ),
    "churn": ("how much a table changes", ("table", "span", "every")),
    "hot-rows": ("the rows of a table that changed most often", ("table", "span", "top")),
    "transaction-sizes": ("percentiles of the sizes of transactions", ("span",)),
    "transaction-rates": ("transactions in each minute or hour", ("span", "every")),
    "who-changed-what": ("changes by actor, table and column", ("tables", "span")),
    "schema-versions": ("the shapes of a table in a span", ("table", "span")),
}


def compute(spark: "SparkSession", options: argparse.Namespace) -> Result:
    """What the chosen job gives. Raises ``SparkProblem``, ``TargetProblem``."""
    # Late: pages know the jobs where there is no Spark.
    from replview.spark.history import activity, snapshots

    incarnation = Incarnation.find(options.root, options.life)
    if options.name == "transaction-sizes":
        return activity.transaction_sizes(spark, incarnation, _span(options))
    if options.name == "transaction-rates":
        return activity.transaction_rates(spark, incarnation, _span(options), every=options.every)
    if options.name == "who-changed-what":
        chosen = [incarnation.table(name) for name in options.table or ()] or incarnation.tables
        if not chosen:
            raise SparkProblem(f"no table is exported of {incarnation.name} there",
                               "export a slice with changes of tables")  # fmt: skip
        return activity.who_changed(spark, chosen, _span(options), options.masked)
    table = incarnation.table(options.table)
    if options.name == "churn":
        return activity.churn(spark, table, _span(options), every=options.every)
    if options.name == "schema-versions":
        return snapshots.schema_versions(spark, table, _span(options))
    if options.name == "hot-rows":
        found = activity.hot_rows(spark, table, _span(options), top=options.top)
    else:
        of = snapshots.as_of if options.name == "as-of" else snapshots.row_versions
        found = of(spark, table, Moment(options.lsn, options.time))
    return without_masked(found, table, options.masked)


def add_jobs(commands: Any) -> None:
    for name, (help_, groups) in JOBS.items():
        parser = commands.add_parser(name, help=help_, description=f"Show {help_}.")
        parser.add_argument("--root", required=True, metavar="URL", help="where slices were "
                            "exported to")  # fmt: skip
        parser.add_argument("--incarnation", "--life", dest="life", metavar="SOURCE/SLOT-NUMBER",
                            help="whose changes (default: the only one there is)")  # fmt: skip
        for group in (*groups, "output"):
            here = parser.add_mutually_exclusive_group() if group == "moment" else parser
            for option, facts in _OPTIONS[group].items():
                here.add_argument(option, **facts)


def masks(text: str) -> dict[str, list[str]]:
    """Tables with their masked columns."""
    try:
        given = json.loads(text)
        return {str(name): [str(column) for column in given[name]] for name in given}
    except (ValueError, TypeError, KeyError):
        raise argparse.ArgumentTypeError("masked columns are told as JSON") from None


def lsn(text: str) -> int:
    """``0/1A2B3C`` as a number."""
    try:
        return int(LSN.parse(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no LSN such as 16/B374D848") from None


def moment(text: str) -> dt.datetime:
    """An ISO 8601 time; without a zone it is UTC's."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        example = "2026-11-20T07:57:11Z"
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as {example}") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)


#: The options of a group.
_OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "table": {"--table": {"required": True, "metavar": "SCHEMA.TABLE"}},
    "tables": {"--table": {
        "action": "append", "metavar": "SCHEMA.TABLE",
        "help": "may be given several times (default: all of the incarnation's)"}},
    # One of them.
    "moment": {
        "--lsn": {"type": lsn, "help": "at this commit LSN"},
        "--time": {"type": moment, "help": "at this time (ISO 8601; UTC if it has no zone; "
                                           "default: the end of what was exported)"}},
    "span": {
        "--from-lsn": {"type": lsn, "metavar": "LSN", "help": "first commit LSN"},
        "--to-lsn": {"type": lsn, "metavar": "LSN", "help": "last commit LSN"},
        "--since": {"type": moment, "metavar": "TIME", "help": "first commit time"},
        "--until": {"type": moment, "metavar": "TIME", "help": "last commit time"}},
    "every": {"--every": {"choices": PERIODS, "default": "minute",
                          "help": "the length of a period (default: minute)"}},
    "top": {"--top": {"type": int, "default": 20, "metavar": "ROWS",
                      "help": "how many (default: 20)"}},
    "output": {
        "--output": {"metavar": "URL",
                     "help": "write all rows there as Parquet; the folder must not exist"},
        "--limit": {"type": int, "default": 20, "metavar": "ROWS",
                    "help": "rows shown (default: 20)"},
        "--masked": {"type": masks, "default": {}, "metavar": "JSON", "help": "columns whose "
                     'values are left out: {"public.customers": ["mail"]}'},
        "--json": {"action": "store_true", "help": "show them as one JSON object"},
        "--spark": {"metavar": "URL", "help": "local[2], spark://…, sc://… (default: the "
                                              "environment's, else this machine)"}},
}  # fmt: skip


def _span(options: argparse.Namespace) -> "Span":
    from replview.spark.history.reach import Span

    return Span(options.from_lsn, options.to_lsn, options.since, options.until)
