"""Downloads of a filtered view: JSON lines, CSV, Parquet."""
