"""Retention: the store's size and limits, deletion, and the progress of the archive."""
