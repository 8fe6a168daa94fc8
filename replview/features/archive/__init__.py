"""The archive: history as Parquet, and pages that it answers."""
