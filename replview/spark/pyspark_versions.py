"""Differences between the supported versions of PySpark."""

import importlib.util
import inspect
from collections.abc import Callable

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def limits_batches() -> bool:
    """Return whether a stream can limit its batches: since PySpark 4.2."""
    return importlib.util.find_spec("pyspark.sql.streaming.datasource") is not None


def arrow_schema(planned_as: StructType) -> pa.Schema:
    """Return the schema of Spark's plan in Arrow, with times in UTC.

    PySpark 4.1 uses UTC by default; later versions need the zone.
    """
    convert: Callable[..., pa.Schema] = to_arrow_schema
    if "timezone" in inspect.signature(convert).parameters:
        return convert(planned_as, timezone="UTC")
    return convert(planned_as)
