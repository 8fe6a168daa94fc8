"""The command line of the Spark job that feeds, maintains or erases from a lake."""

import os
from collections.abc import Iterable
from pathlib import Path

from django.conf import settings

from replview.store.models import Lake
from replview.store.retention import archive

#: Bytes beyond which the log of a lake's runs starts again.
_LOG_BYTES = 4 * 1024 * 1024


def lake_arguments(lake: Lake, action: str, tables: Iterable[str], **options: object) -> list[str]:
    """Return the job's arguments; a value follows a ``=``, so that none is read as an option.

    An option without a value is left out, except ``spark``, which has a default.
    """
    spark = options.pop("spark", None) or os.environ.get("REPLVIEW_SPARK") or "local[2]"
    values = {
        "root": lake.root, "format": lake.format, "slot": lake.slot_name,
        "connector": lake.connector, "archive": archive.chosen().target, "spark": spark, **options,
    }  # fmt: skip
    argv = [f"--{name}={value}" for name, value in values.items() if value]
    return ["lake", action, *argv, *(f"--table={name}" for name in tables)]


def lake_log(lake: Lake) -> Path:
    """Return the path of the log of a lake's runs, which begins anew when it is long."""
    path = Path(settings.DATA_DIR) / "lake-logs" / f"{lake}.log"
    if path.exists() and path.stat().st_size > _LOG_BYTES:
        path.unlink()
    return path
