"""Ask about the record itself: what a job reads is written to a folder that lasts as long as it."""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from replview.parquet.archive.deleted import resolved
from replview.parquet.reading import SliceRequest, connect
from replview.parquet.reading.masks import with_rules
from replview.parquet.writing.exporting import Progress, export
from replview.parquet.writing.targets import Target
from replview.spark.history.datasets import with_schema
from replview.spark.history.engines import by_duckdb
from replview.spark.sessions import SparkProblem
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.text.parsing import read_table_word


@contextmanager
def read_record(options: argparse.Namespace) -> Iterator[str]:
    """Write the job's tables of the slot's current incarnation to a folder; return its path.

    Columns that the store's rules mask are masked. Raises ``StoreProblem``, and ``SparkProblem``
    where there are more changes than DuckDB answers.
    """
    named = getattr(options, "table", None) or ()
    tables = [named] if isinstance(named, str) else named
    filter_ = TransactionFilter(tables=tuple(read_table_word(with_schema(name)) for name in tables))
    with tempfile.TemporaryDirectory(prefix="replview-record-") as folder:
        with connect() as store:
            request = SliceRequest(slot=options.slot, filter=filter_)
            part = with_rules(store, resolved(store, request))

        def check(progress: Progress) -> None:
            if not by_duckdb(progress.total_rows, options.spark_above):
                raise SparkProblem(
                    f"{progress.total_rows} changes and transactions are too many for one process",
                    "export them, and ask about the export with --root",
                )

        export(part, Target.of(folder), progress=check)
        yield folder
