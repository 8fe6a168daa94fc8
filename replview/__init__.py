"""replview: see what flows through PostgreSQL logical replication."""

__version__ = "0.1.0"
