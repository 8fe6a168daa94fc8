"""This package runs embedded PostgreSQL and Redis servers."""
