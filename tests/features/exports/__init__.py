"""Exports served by workers: jobs, restarts, cancelling."""
