"""Write slices of the record as Parquet: one writer, in a plain process or in Spark's executors."""
