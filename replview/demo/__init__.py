"""The demo: embedded PostgreSQL and Redis, the process stack, and a shop that keeps changing.

Nothing here is needed to run replview against servers of one's own; nothing outside imports it
but the commands ``demo``, ``up`` and ``watch``, and the tests, which use the embedded servers.
"""
