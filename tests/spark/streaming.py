"""Streams through the data source."""

import json
from pathlib import Path
from typing import Any

from replview.spark.options import Options
from replview.spark.pyspark_versions import limits_batches
from replview.spark.stream_offsets import end_of_batch


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


def stream_by(spark: Any, folder: Path, changes: int, **options: str) -> list[int]:
    """Like stream_into(), in batches of so many changes; before PySpark 4.2 each is a run."""
    if limits_batches():
        return stream_into(spark, folder, maxRowsPerTrigger=str(changes), **options)
    logs = (folder / "checkpoint" / "offsets").glob("[0-9]*")
    newest = max(logs, key=lambda path: int(path.name), default=None)
    start = {} if newest is None else json.loads(newest.read_text().splitlines()[2])
    batches = stream_into(spark, folder, upTo=json.dumps(start), **options)
    while (end := end_of_batch(Options.parse(options), start, changes)) != start:
        batches += stream_into(spark, folder, upTo=json.dumps(end), **options)
        start = end
    return batches
