"""Baselines: a table's rows, read once as of one WAL position."""
