"""This package is the demo: a shop that keeps changing, and troubles with its replication.

replview does not need it to run against other servers. Only the command ``demo`` and the tests
import it.
"""
