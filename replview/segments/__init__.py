"""Segments: files that hold older changes of the record, compressed, in the record's order.

Nothing here knows the store, Django or Spark.
"""
