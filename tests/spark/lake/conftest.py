"""A session of Spark that reads and writes lakes, and the lakes of a test."""

from collections.abc import Callable
from typing import Any

import pytest

from replview.spark.lake.feeding import Feed
from replview.spark.lake.formats import FORMATS
from replview.spark.lake.tables import LakeTable
from replview.spark.stream_offsets import Offset
from tests.support.jars import JarsMissing
from tests.support.lake_connectors import connectors
from tests.support.recording import Recording

MakeFeed = Callable[..., Feed]


@pytest.fixture(scope="session")
def lake_root(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of all lakes: Iceberg's catalog has one for as long as its session."""
    root = str(tmp_path_factory.mktemp("lake"))
    spark.conf.set("spark.sql.catalog.lake.warehouse", root)
    return root


#: Delta is fed every time; a lake takes a minute, so that Iceberg is a share's.
_FORMATS = [
    pytest.param(name, marks=() if name == "delta" else pytest.mark.long) for name in FORMATS
]


@pytest.fixture(params=_FORMATS)
def feed_of(request, spark: Any, store_dsn: str, lake_root: str) -> MakeFeed:
    """``feed_of(recording, "public.shop")``: feeds a lake of each format."""
    if isinstance(problem := connectors(), JarsMissing):
        pytest.skip(str(problem))

    def make(recording: Recording, relation: str, changes: int = 1_000_000) -> Feed:
        slot = recording.slot
        format_, source = FORMATS[request.param], slot.source.name
        lake = LakeTable(spark, format_, lake_root, source, slot.name, relation)
        return Feed(lake, changes, {"dsn": store_dsn})

    return make


def killed_after(calls: int) -> Callable[..., Offset]:
    """In place of ``catch_up``: it merges nothing, and after so many calls the process ends."""
    left = [calls]

    def catch_up(_: Any, __: Any, start: Offset, *___: Any) -> Offset:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return start

    return catch_up
