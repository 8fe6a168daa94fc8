"""Streams through the data source."""

from pathlib import Path
from typing import Any


def stream_into(spark: Any, folder: Path, **options: str) -> list[int]:
    """Stream what there is into ``out``, from the folder's checkpoint on; each batch's rows."""
    stream = (
        spark.readStream.format("replview")
        .options(**options)
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    assert stream.awaitTermination(120)
    assert stream.exception() is None
    return [each.numInputRows for each in stream.recentProgress if each.numInputRows]
