"""A lake's two tables, fed from the record: changes a second into ``changes`` and ``current``."""

import os
import tempfile
import time
from typing import Any

from tests.benchmarks.processes import Failed
from tests.benchmarks.report import Result
from tests.benchmarks.spark.filling import OF_ORDERS, PER_TRANSACTION
from tests.support.jars import JarsMissing
from tests.support.lake_connectors import connectors

BAR_PER_SECOND = 40_000
_SLOT = ("shop", "replview")


def lake(dsn: str, changes: int) -> list[Result]:
    """The bar of each format, over the table that the other benchmarks read."""
    rows = changes // PER_TRANSACTION * OF_ORDERS
    return [_fed(name, dsn, rows) for name in ("delta", "iceberg")]


def _fed(name: str, dsn: str, rows: int) -> Result:
    from replview.spark.lake.feeding import Feed
    from replview.spark.lake.formats import FORMATS, connector_settings
    from replview.spark.lake.tables import LakeTable
    from replview.spark.sessions import session

    if isinstance(jars := connectors(), JarsMissing):
        raise Failed(str(jars))
    with tempfile.TemporaryDirectory() as root:
        settings: dict[str, Any] = connector_settings(FORMATS[name], root, "none")
        settings["spark.driver.extraClassPath"] = os.pathsep.join(map(str, jars))
        spark = session("local[2]", name="replview benchmark", **settings)
        try:
            lake_table = LakeTable(spark, FORMATS[name], root, *_SLOT, "public.orders")
            started = time.monotonic()
            Feed(lake_table, options={"dsn": dsn}).run()
            seconds = time.monotonic() - started
        finally:
            spark.stop()
    return Result.at_least(
        f"changes/s into a lake in {name}", rows / seconds, BAR_PER_SECOND,
        detail=f"{rows:,} in {seconds:.1f} s",
    )  # fmt: skip
