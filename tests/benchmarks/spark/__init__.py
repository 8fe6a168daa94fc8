"""The Spark pipeline: how fast the store is read and written as Parquet."""
