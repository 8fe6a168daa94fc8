"""For applications: say who changes something, once per writing transaction.

The convention is a transactional logical message with the prefix ``replview`` whose content is a
JSON object: ``actor`` (a string) and any context beside it. Each module here stands alone: nothing
of replview is imported, so the one file that fits may be copied into an application instead.
"""
