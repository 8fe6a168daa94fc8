"""Erasing rows from exported slices and the archive."""
