"""Modules for applications: they name the actor of a change, once per writing transaction.

The convention is a transactional logical message with the prefix ``replview`` whose content is a
JSON object: ``actor`` (a string) and any context beside it. No module here imports anything of
replview, so an application may copy the one file that it needs.
"""
