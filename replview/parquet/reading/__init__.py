"""Read the store as Arrow batches: by COPY, in ranges cut by counted changes, in bounded memory.

The Spark data source, exports with and without Spark, and the archive all read by these functions,
so that they give the same rows. Nothing here writes to the store.
"""

from replview.parquet.reading.connecting import StoreProblem, connect
from replview.parquet.reading.cutting import cut
from replview.parquet.reading.resolving import SliceRequest, resolve
from replview.parquet.reading.slice_tables import tables_of
from replview.parquet.reading.typed import read_typed
from replview.parquet.reading.untyped import read_events, read_transactions, read_untyped

__all__ = [
    "SliceRequest",
    "StoreProblem",
    "connect",
    "cut",
    "read_events",
    "read_transactions",
    "read_typed",
    "read_untyped",
    "resolve",
    "tables_of",
]
