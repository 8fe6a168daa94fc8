"""The record as Parquet: types, schemas, slices, layout. Free of Django."""
