"""Queries over changes: of a transaction, of a filter, of a search, as a stream."""
