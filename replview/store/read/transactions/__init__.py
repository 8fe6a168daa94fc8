"""Finding transactions by any filter, newest first."""
