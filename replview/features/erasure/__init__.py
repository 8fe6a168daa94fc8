"""Erasure removes all values of given rows from the record, the archive and exports."""
