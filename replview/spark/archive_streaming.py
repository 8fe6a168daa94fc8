"""``python -m replview.spark archive`` is the archive as a Structured Streaming query.

It archives what is stored now in increments (trigger AvailableNow); the next run continues. Spark's
checkpoint in the target has how far each incarnation was read. Each increment is written by the
usual writer, as consecutive slices. If a run is killed between writing and the checkpoint, Spark
repeats the batch, which finds its slice complete or continues it: no row is written twice.

A store with an archive of its own (``replview store archive``) accepts such slices, counts them,
and moves its mark.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import orjson

from replview.parquet.archive.increments import write_next
from replview.parquet.reading import SliceRequest, StoreProblem, connect, resolve
from replview.parquet.slices import Slice
from replview.parquet.writing.chains import Chain
from replview.parquet.writing.layout import encoded
from replview.parquet.writing.problems import TargetProblem
from replview.parquet.writing.targets import Target, test_write
from replview.spark.export_tasks import write_parts
from replview.spark.history.engines import spark_url
from replview.spark.pyspark_versions import limits_batches
from replview.spark.sessions import SparkProblem, by_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def archive(
    spark: "SparkSession",
    url: str,
    slot: str | None = None,
    *, dsn: str | None = None, changes: int,
) -> tuple[Mapping[str, int], list[tuple[str, int, int]]]:  # fmt: skip
    """Archive what is stored now; return the archived commit_seq by incarnation, and gaps.

    A gap in the store is an incarnation's number, its first and its last commit_seq. Raises
    ``TargetProblem``, ``StoreProblem``, ``SparkProblem``.
    """
    if by_connect(spark):
        raise SparkProblem(
            "the archive's stream does not run by Spark Connect",
            "give --spark local[2] or a cluster's address, or use: replview store archive URL",
        )
    target = Target.of(url)
    test_write(target)
    with connect(dsn) as connection:
        part = resolve(connection, SliceRequest(slot=slot))
    checkpoint = f"_checkpoints/{encoded(part.source)}/{encoded(part.slot)}"
    writer = _Increments(target, f"{part.source}/{part.slot}", dsn, checkpoint, spark)
    stream = _stream_of(spark, part, dsn, changes)
    query = (
        stream.writeStream.foreachBatch(writer)
        .option("checkpointLocation", f"{spark_url(target)}/{checkpoint}")
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except Exception as error:
        if writer.problem is not None:
            raise writer.problem from error
        raise SparkProblem(
            f"the stream ended ({type(error).__name__})", "see its log; run again, it goes on"
        ) from error
    finally:
        query.stop()
    return writer.done, writer.gaps


def _stream_of(spark: "SparkSession", part: Slice, dsn: str | None, changes: int) -> "DataFrame":
    """Return a stream of the slot's record, in batches of about ``changes`` where Spark can."""
    stream = (
        spark.readStream.format("replview")
        .option("source", part.source)
        .option("slot", part.slot)
        # The manifests record what the store lacks.
        .option("failOnDataLoss", "false")
    )
    if limits_batches():
        stream = stream.option("maxRowsPerTrigger", changes)
    return (stream if dsn is None else stream.option("dsn", dsn)).load()


class _Increments:
    """A function that writes each batch: its offsets name the slices, its rows are not read."""

    def __init__(
        self, target: Target, slot: str, dsn: str | None, checkpoint: str, spark: object
    ) -> None:
        self._target, self._slot, self._dsn = target, slot, dsn
        self._checkpoint = checkpoint
        self._spark = spark
        self.done: dict[str, int] = {}
        self.gaps: list[tuple[str, int, int]] = []
        self.problem: BaseException | None = None

    def __call__(self, frame: "DataFrame", batch: int) -> None:
        try:
            for incarnation, through in sorted(self._offset(batch).items()):
                self._write(incarnation, through)
        except (TargetProblem, StoreProblem) as error:
            self.problem = error
            raise

    def _offset(self, batch: int) -> dict[int, int]:
        """Return how far each incarnation is read with this batch, from Spark's checkpoint.

        Source: Spark, OffsetSeqLog: a version, a line of metadata, then one per source.
        """
        data = self._target.read_bytes(f"{self._checkpoint}/offsets/{batch}") or b""
        lines = data.decode().splitlines()
        if len(lines) < 3 or lines[0] != "v1":
            raise SparkProblem(
                "Spark's checkpoint is not as it was known", "archive by replview store archive"
            )
        return {int(number): through for number, through in orjson.loads(lines[2]).items()}

    def _write(self, incarnation: int, through: int) -> None:
        """Write slices from where the files end up to ``through``."""
        with connect(self._dsn) as connection:
            request = SliceRequest(slot=self._slot, incarnation=incarnation, through_seq=through)
            wanted = resolve(connection, request)
        through = min(through, wanted.through_seq)
        while (reached := Chain.of(self._target, wanted).reached()) < through:
            wanted = replace(wanted, after_seq=reached, through_seq=through)
            write = partial(write_parts, self._spark)
            made = write_next(wanted, self._target, dsn=self._dsn, write_parts=write)
            self.done[str(incarnation)] = made.slice.through_seq
            gaps = [gap for gap in made.document["gaps"] if gap["kind"] == "deleted"]
            self.gaps += [(str(incarnation), g["after_seq"] + 1, g["through_seq"]) for g in gaps]
