"""A slice as Parquet, against reading alone; a small one from nothing; the memory of it all.

Reading alone is ``read_typed`` over the same ranges, two at a time as the export has them; on Spark
it is the same frames, written to ``noop``.
"""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.benchmarks.report import Result
from tests.benchmarks.spark import jobs
from tests.benchmarks.spark.filling import PER_TRANSACTION
from tests.benchmarks.spark.reading import session
from tests.benchmarks.spark.rounds import medians

BAR_OF_READING = 0.5
BAR_OF_SPARKS_READING = 0.6
BAR_COLD_SECONDS = 15.0
BAR_MEMORY_BYTES = 2 * 1024**3
#: Compressed columns, of what the store's tables and their indexes take.
BAR_OF_STORE = 0.2
_SMALL = 10_000

_STORE_BYTES = """
    SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
    WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
      AND (c.relname LIKE 'change%' OR c.relname = 'transaction')
"""


def writing(dsn: str, changes: int) -> list[Result]:
    """The bars of exports."""
    from replview.parquet import reading
    from replview.parquet.writing.planning import ExportPlan

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with reading.connect(dsn) as store:
            whole = reading.resolve(store, reading.SliceRequest(source="shop", slot="replview"))
            last = whole.after_seq + _SMALL // PER_TRANSACTION
            small = reading.resolve(
                store, reading.SliceRequest(source="shop", slot="replview", through_seq=last)
            )
            plan = ExportPlan.of(store, whole)
            stored_bytes = store.execute(_STORE_BYTES).fetchone()[0]
        read, write = medians(
            lambda _: _read_alone(dsn, plan),
            lambda number: _export(dsn, whole, root / f"whole-{number}"),
        )
        cold = [
            jobs.export(dsn, small, root / f"small-{where}", where) for where in (None, "local[2]")
        ]
        plain = jobs.export(dsn, whole, root / "by-job", None)
        by_spark = jobs.export(dsn, whole, root / "by-spark", "local[2]")
        written = sum(path.stat().st_size for path in (root / "by-job").rglob("*.parquet"))
        on_spark = _on_spark(dsn, changes, plan, root)
    peak = max(plain.peak_bytes, by_spark.peak_bytes)
    return [
        Result.at_least(
            "export, of reading alone",
            read / write,
            BAR_OF_READING,
            detail=f"{changes / write / 1000:.0f} k rows/s, reading {changes / read / 1000:.0f} k; "
            f"as a job {changes / plain.seconds / 1000:.0f} k, "
            f"on Spark {changes / by_spark.seconds / 1000:.0f} k; Spark pays "
            f"{_pays_from(changes, cold, plain, by_spark)}",
        ),
        on_spark,
        Result(
            "a slice of 10,000 rows, cold",
            f"{cold[0].seconds:.1f} s, on Spark {cold[1].seconds:.1f} s",
            f"≤ {BAR_COLD_SECONDS:g} s",
            max(each.seconds for each in cold) <= BAR_COLD_SECONDS,
        ),
        Result(
            "memory of all processes of an export",
            f"{plain.peak_bytes / 1e6:.0f} MB, on Spark {by_spark.peak_bytes / 1e6:.0f} MB",
            f"≤ {BAR_MEMORY_BYTES / 1e6:.0f} MB",
            peak <= BAR_MEMORY_BYTES,
        ),
        Result(
            "bytes of a change, of the store's",
            f"{written / stored_bytes:.3f}"
            f" ({written / changes:.0f} of {stored_bytes / changes:.0f})",
            f"≤ {BAR_OF_STORE:g}",
            written / stored_bytes <= BAR_OF_STORE,
        ),
    ]


def _on_spark(dsn: str, changes: int, plan: Any, root: Path) -> Result:
    """An export by Spark's writer against reading the same frames."""
    from functools import partial

    from replview.spark.exporting import write_parts

    with session() as spark:
        read, write = medians(
            lambda _: _read_by_spark(spark, dsn, plan),
            lambda number: _export(
                dsn, plan.part_of, root / f"spark-{number}", write_parts=partial(write_parts, spark)
            ),
        )
    return Result.at_least(
        "export on Spark, of reading alone",
        read / write,
        BAR_OF_SPARKS_READING,
        detail=f"{changes / write / 1000:.0f} k rows/s, reading {changes / read / 1000:.0f} k",
    )


def _read_by_spark(spark: Any, dsn: str, plan: Any) -> None:
    from replview.spark.planned_files import PlannedFiles

    for relation, table in plan.tables.items():
        parts = tuple(part for part in plan.parts if part.relation_id == relation)
        files = PlannedFiles(plan.part_of, table, parts).to_json()
        reader = spark.read.format("replview").option("files", files).option("dsn", dsn)
        reader.load().write.format("noop").mode("overwrite").save()


def _pays_from(
    changes: int, cold: list[jobs.Ended], plain: jobs.Ended, by_spark: jobs.Ended
) -> str:
    """Return the number of changes from which on Spark is faster, by two sizes of each."""
    slower_start = cold[1].seconds - cold[0].seconds
    gained = (plain.seconds - cold[0].seconds) - (by_spark.seconds - cold[1].seconds)
    if gained <= 0:
        return "nowhere on this machine"
    return f"from {_SMALL + slower_start / gained * (changes - _SMALL):,.0f} changes on"


def _read_alone(dsn: str, plan: Any) -> None:
    from replview.parquet import reading

    def read(part: Any) -> None:
        with reading.connect(dsn) as store:
            for _ in reading.read_typed(
                store, plan.part_of, plan.tables[part.relation_id], part.within
            ):
                pass

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(read, [part for part in plan.parts if part.kind == "table"]))


def _export(dsn: str, part: Any, folder: Path, **options: Any) -> None:
    from replview.parquet.writing.exporting import export
    from replview.parquet.writing.targets import Target

    export(part, Target.of(str(folder)), dsn=dsn, **options)
