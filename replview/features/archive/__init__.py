"""The archive keeps history as Parquet; this feature writes it and shows pages from it."""
