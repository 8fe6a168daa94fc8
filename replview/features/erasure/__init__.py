"""Erasure: all values of given rows removed from the record, the archive and exports."""
