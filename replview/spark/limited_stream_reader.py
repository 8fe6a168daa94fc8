"""A stream whose batches are limited, by classes that PySpark has since 4.2."""

from dataclasses import replace

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from replview.parquet.reading import connect
from replview.spark.stream_offsets import Offset, end_of_batch, stored_offset
from replview.spark.stream_reader import StreamReader


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """A stream of the record in batches of about ``maxRowsPerTrigger`` changes."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that ``maxRowsPerTrigger`` sets."""
        most = self._options.max_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Limit this run to what is stored now."""
        with connect(self._options.dsn) as connection:
            stored = stored_offset(connection, self._options)
        self._options = replace(self._options, up_to=stored)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # type: ignore[override]
        """Return the offset that one batch within the limit reaches."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return end_of_batch(self._options, start, most)

    def reportLatestOffset(self) -> Offset:
        """Return the offset of what is stored now, for Spark's metrics."""
        return end_of_batch(self._options, {})
