"""Read the record with Spark, and compute history jobs over Parquet files; uses no Django."""
