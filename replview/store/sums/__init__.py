"""Sums of the record are computed in the background: by block, day, minute, table and actor."""
