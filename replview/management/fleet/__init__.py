"""Forty databases from one file: what ``fleet.toml`` declares, planned and applied."""
