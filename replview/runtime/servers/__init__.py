"""Embedded PostgreSQL and Redis servers."""
