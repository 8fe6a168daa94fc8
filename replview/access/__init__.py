"""Accounts, roles, grants, visibility, sign-in, tokens and the access record."""
