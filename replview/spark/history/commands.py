"""The history jobs as commands: options, and what they print or write."""

import argparse
import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from decoder.scalars import LSN
from replview.spark.history.datasets import Dataset, ExportedIncarnation
from replview.spark.history.engines import MOST_FOR_DUCKDB, VARIABLE, Session
from replview.spark.history.results import Result, without_masked
from replview.spark.history.spans import HistoryEnd, HistoryRange
from replview.spark.sessions import SparkProblem
from replview.text.parsing import whole_number

#: Periods by which changes can be counted.
PERIODS = ("minute", "hour", "day", "week", "month")


#: Result and groups of options of each command.
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


@dataclass(frozen=True)
class Question:
    """A job with its options, and the tables that they name below the root."""

    options: argparse.Namespace
    incarnation: ExportedIncarnation
    #: Tables of the job; empty for a job about transactions.
    tables: Sequence[Dataset]

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """Find the tables that the options name. Raises ``SparkProblem``, ``TargetProblem``."""
        incarnation = ExportedIncarnation.find(options.root, options.incarnation)
        groups = JOBS[options.name][1]
        if "table" in groups:
            return cls(options, incarnation, [incarnation.table(options.table)])
        if "tables" not in groups:
            return cls(options, incarnation, [])
        chosen = [incarnation.table(name) for name in options.table or ()] or incarnation.tables
        if not chosen:
            raise SparkProblem(f"no table is exported of {incarnation.name} there",
                               "export a slice with changes of tables")  # fmt: skip
        return cls(options, incarnation, chosen)

    def rows(self) -> int:
        """Return the number of rows that the job reads."""
        day = (self.span.end if "span" in JOBS[self.options.name][1] else self.moment).day
        files = [root.parquet for table in self.tables for root in table.roots]
        return sum(each.rows(day) for each in files or self.incarnation.transaction_files)

    def answer(self, session: Session) -> Result:
        """Run the job. Raises ``SparkProblem``, ``TargetProblem``."""
        # Import here: these need an engine's modules, which pages that list jobs do not load.
        from replview.spark.history import activity, snapshots

        options, tables = self.options, self.tables
        match options.name:
            case "transaction-sizes":
                return activity.transaction_sizes(session, self.incarnation, self.span)
            case "transaction-rates":
                every = options.every
                return activity.transaction_rates(session, self.incarnation, self.span, every=every)
            case "who-changed-what":
                return activity.who_changed(session, tables, self.span, options.masked)
            case "churn":
                return activity.churn(session, tables[0], self.span, every=options.every)
            case "schema-versions":
                return snapshots.schema_versions(session, tables[0], self.span)
            case "hot-rows":
                found = activity.hot_rows(session, tables[0], self.span, top=options.top)
            case "as-of":
                found = snapshots.as_of(session, tables[0], self.moment)
            case _:
                found = snapshots.row_versions(session, tables[0], self.moment)
        return without_masked(found, tables[0], options.masked)

    @property
    def span(self) -> HistoryRange:
        """Return the span that the options set."""
        options = self.options
        return HistoryRange(options.from_lsn, options.to_lsn, options.since, options.until)

    @property
    def moment(self) -> HistoryEnd:
        """Return the moment that the options set."""
        return HistoryEnd(self.options.lsn, self.options.time)


def add_jobs(commands: Any) -> None:
    """Add a parser for each job."""
    for name, (help_, groups) in JOBS.items():
        parser = commands.add_parser(name, help=help_, description=f"Show {help_}.")
        where = parser.add_mutually_exclusive_group(required=True)
        where.add_argument("--root", metavar="URL", help="where slices were exported to")
        where.add_argument("--slot", metavar="SOURCE/SLOT",
                           help="a slot whose record is read from the store")  # fmt: skip
        parser.add_argument("--incarnation", "--life", metavar="SOURCE/SLOT-NUMBER",
                            help="whose changes (default: the only one there is)")  # fmt: skip
        for group in (*groups, "output"):
            here = parser.add_mutually_exclusive_group() if group == "moment" else parser
            for option, facts in _OPTIONS[group].items():
                here.add_argument(option, **facts)


def masks(text: str) -> dict[str, list[str]]:
    """Parse tables with their masked columns from JSON."""
    try:
        given = json.loads(text)
        return {str(name): [str(column) for column in given[name]] for name in given}
    except (ValueError, TypeError, KeyError):
        raise argparse.ArgumentTypeError("masked columns are told as JSON") from None


def lsn(text: str) -> int:
    """Parse an LSN such as ``0/1A2B3C``."""
    try:
        return int(LSN.parse(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no LSN such as 16/B374D848") from None


def moment(text: str) -> dt.datetime:
    """Parse an ISO 8601 time; without a zone it is UTC."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        example = "2026-11-20T07:57:11Z"
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as {example}") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)


def row_count(text: str) -> int:
    """Parse a number of rows."""
    number = whole_number(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rows")
    return number


#: Options of each group.
_OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "table": {"--table": {"required": True, "metavar": "SCHEMA.TABLE"}},
    "tables": {"--table": {
        "action": "append", "metavar": "SCHEMA.TABLE",
        "help": "may be given several times (default: all of the incarnation's)"}},
    # The options of this group exclude each other.
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
                                              "environment's, else this machine)"},
        "--spark-above": {"type": row_count, "metavar": "ROWS", "help": "up to so many rows "
                          f"DuckDB answers, more Spark (default: {VARIABLE}, else "
                          f"{MOST_FOR_DUCKDB})"}},
}  # fmt: skip
