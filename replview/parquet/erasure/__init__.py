"""Erase rows from exported slices and the archive."""
