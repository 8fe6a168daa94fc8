"""Slices of the record written as Parquet: one writer, in a plain process or in Spark's
executors.
"""
