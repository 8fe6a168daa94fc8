"""Keep a lake's files few and its history short: compact, expire old snapshots, delete orphans."""

import datetime as dt

from replview.spark.lake.tables import CHANGES, CURRENT, LakeTable

#: Days for which a table can be read as it was.
KEPT_DAYS = 7


def maintain(lake: LakeTable, days: int = KEPT_DAYS) -> None:
    """Compact both tables, and delete what no snapshot of the last ``days`` needs."""
    before = dt.datetime.now(dt.UTC) - dt.timedelta(days=days)
    for kind in (CHANGES, CURRENT):
        for statement in lake.format.maintenance(lake.spark, lake.name(kind), before):
            lake.spark.sql(statement)
