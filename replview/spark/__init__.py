"""From the record to Parquet and Spark; knows nothing of Django."""
