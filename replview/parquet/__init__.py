"""The record as Parquet: types, schemas, slices, layout. This package does not use Django."""
