"""Accounts, each user's own account page, and the first admin."""
