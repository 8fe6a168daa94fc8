"""A lake's two tables, fed from the record: changes a second into ``changes`` and ``current``.

Each format has a session of its own, on ``local[2]``, which a tenth of the record warms. The record
is read alone, too; then half of it is fed into one lake, and the whole of it into another.
"""

import json
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
BAR_RATIO = 2.2
_SLOT, _TABLE = ("shop", "replview"), "public.orders"


def lake(dsn: str, changes: int) -> list[Result]:
    """The bars of each format, over the table that the other benchmarks read."""
    from replview.spark.lake.formats import FORMATS

    return [result for name in FORMATS for result in _measured(name, dsn, changes)]


def _measured(name: str, dsn: str, changes: int) -> list[Result]:
    from replview.spark.lake.formats import FORMATS, connector_settings
    from replview.spark.sessions import session

    if isinstance(jars := connectors(), JarsMissing):
        raise Failed(str(jars))
    whole = changes // PER_TRANSACTION
    with tempfile.TemporaryDirectory() as root:
        settings: dict[str, Any] = connector_settings(FORMATS[name], root, "none")
        settings["spark.driver.extraClassPath"] = os.pathsep.join(map(str, jars))
        spark = session("local[2]", name="replview benchmark", **settings)
        try:
            _fed(spark, name, root, dsn, whole // 10)
            read = _read(spark, dsn)
            half, all_of_it = (_fed(spark, name, root, dsn, end) for end in (whole // 2, whole))
        finally:
            spark.stop()
    rows = whole * OF_ORDERS
    return [
        Result.at_least(
            f"changes/s into a lake in {name}", rows / all_of_it, BAR_PER_SECOND,
            detail=f"{rows:,} in {all_of_it:.1f} s, {read / all_of_it:.2f} of reading alone",
        ),
        Result(
            f"twice the backlog into a lake in {name}, of the time",
            f"{all_of_it / half:.2f} ({half:.1f} s for {rows // 2:,})",
            f"≤ {BAR_RATIO:g}",
            all_of_it / half <= BAR_RATIO,
        ),
    ]  # fmt: skip


def _fed(spark: Any, name: str, root: str, dsn: str, end: int) -> float:
    """Seconds until so many transactions are in a lake of their own."""
    from replview.spark.lake.feeding import Feed
    from replview.spark.lake.formats import FORMATS
    from replview.spark.lake.tables import LakeTable

    source, slot = _SLOT
    options = {"dsn": dsn, "source": source, "upTo": json.dumps({"1": end})}
    lake_table = LakeTable(spark, FORMATS[name], root, f"to {end}", slot, _TABLE)
    started = time.monotonic()
    Feed(lake_table, options=options).run()
    return time.monotonic() - started


def _read(spark: Any, dsn: str) -> float:
    """Seconds until every change is read, and written nowhere."""
    source, slot = _SLOT
    options = {"dsn": dsn, "source": source, "slot": slot, "relation": _TABLE}
    started = time.monotonic()
    frame = spark.read.format("replview").options(**options).load()
    frame.write.format("noop").mode("overwrite").save()
    return time.monotonic() - started
