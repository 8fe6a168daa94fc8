"""The record that is exported."""

from pathlib import Path

import pyarrow.dataset as ds

from tests.support.exported_history import history as history


def ids(root: Path) -> list[str]:
    folder = root / "shop" / "replview-1" / "public.orders"
    found = ds.dataset(folder, format="parquet", partitioning="hive").to_table()
    return sorted(found.column("id").to_pylist())
