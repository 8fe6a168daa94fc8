"""Queries that list transactions by any filter, newest first."""
