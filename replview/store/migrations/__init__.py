"""Schema migrations of the store."""
