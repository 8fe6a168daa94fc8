"""Sums of the record, made behind the receivers: by block, day, minute, table and actor."""
