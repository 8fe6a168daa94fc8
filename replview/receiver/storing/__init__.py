"""The write path of a session turns events into store transactions."""
