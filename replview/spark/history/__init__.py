"""History jobs: what exported changes tell, computed by Spark over their Parquet files."""
