"""Accounts, one's own account, and the first admin."""
