"""History jobs compute results from exported changes in Parquet files, with Spark or DuckDB."""
