"""The memory of Spark's driver while a cluster exports the record, and feeds a lake from it.

The driver is Python and a JVM; executors are processes of the cluster's workers.
"""

import tempfile
from pathlib import Path

from tests.benchmarks.processes import Failed
from tests.benchmarks.report import Result
from tests.benchmarks.spark import jobs
from tests.support.jars import JarsMissing
from tests.support.lake_connectors import connectors
from tests.support.spark_cluster import spark_cluster

BAR_BYTES = 1024**3
#: A JVM takes what its heap may have: below the bar, with room for what is not heap.
_SUBMIT = "--driver-memory 768m --conf spark.sql.shuffle.partitions=8 pyspark-shell"


def driver(dsn: str, changes: int) -> list[Result]:
    """The bar of both jobs, over the record that the other benchmarks read."""
    from replview.parquet import reading

    with reading.connect(dsn) as store:
        whole = reading.resolve(store, reading.SliceRequest(source="shop", slot="replview"))
    with spark_cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        exported = jobs.export(dsn, whole, Path(folder) / "export", cluster.url)
        fed = _fed(dsn, f"{folder}/lake", cluster.url)
    return [
        Result(
            "memory of Spark's driver",
            f"{exported.peak_bytes / 1e6:.0f} MB in an export of {changes:,} changes "
            f"({exported.seconds:.0f} s), {fed.peak_bytes / 1e6:.0f} MB in a lake's run "
            f"({fed.seconds:.0f} s)",
            f"≤ {BAR_BYTES / 1e6:.0f} MB",
            max(exported.peak_bytes, fed.peak_bytes) <= BAR_BYTES,
        )
    ]


def _fed(dsn: str, root: str, cluster: str) -> jobs.Ended:
    """A lake's run that reads the whole record."""
    if isinstance(jars := connectors(), JarsMissing):
        raise Failed(str(jars))
    submit = f"--jars {','.join(map(str, jars))} {_SUBMIT}"
    words = ["replview.spark", "lake", "run", "--root", root, "--format", "delta",
             "--slot", "shop/replview", "--table", "public.orders",
             "--connector", "none", "--spark", cluster]  # fmt: skip
    return jobs.run(words, {"REPLVIEW_STORE_URL": dsn, "PYSPARK_SUBMIT_ARGS": submit})
