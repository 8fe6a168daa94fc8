"""The engines that answer over exported changes, and the store that they read from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.spark_session import spark as spark

pytest.register_assert_rewrite(
    *(f"tests.spark.{name}" for name in ("elsewhere", "export_job", "held_up", "streaming"))
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark 4.1 leaves the sockets of collect() to the garbage collector."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            mark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
            item.add_marker(mark)


@pytest.fixture(
    params=["duckdb", pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.long])]
)
def engine(request, tmp_path) -> Iterator[Any]:
    """A session of each engine that answers questions over exported changes.

    Both get the same questions. Spark takes ten times as long, so it answers in CI's shares.
    """
    if request.param == "spark":
        yield request.getfixturevalue("spark")
        return
    from replview.parquet.writing.targets import Target
    from replview.spark.history.engines import duckdb

    with duckdb(str(tmp_path / "spill"), Target.of(str(tmp_path))) as session:
        yield session


@pytest.fixture
def store_dsn(transactional_db) -> str:
    """The address of the test's store, as somebody outside Django has it."""
    from django.db import connection

    settings = connection.settings_dict
    return (
        f"postgresql://{settings['USER']}:{settings['PASSWORD']}@{settings['HOST']}:{settings['PORT']}/"
        f"{settings['NAME']}"
    )
