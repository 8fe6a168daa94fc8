"""Declare, plan and apply many databases from one file, ``fleet.toml``."""
