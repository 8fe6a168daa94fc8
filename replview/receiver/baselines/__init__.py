"""A baseline is the rows of a table as of one position of the WAL, read and stored."""
