"""Queries over the record: transactions, changes, rows, schema history, coverage."""
