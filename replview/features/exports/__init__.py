"""Exports write a slice of the record as Parquet."""
