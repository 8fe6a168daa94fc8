"""A table's rows as of one position of the WAL, read and stored."""
