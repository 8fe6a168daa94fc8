"""Downloads of a filtered view as JSON lines, CSV or Parquet."""
