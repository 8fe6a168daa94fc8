"""Exports: a slice of the record as Parquet."""
