"""This package shows transactions and changes, in the same way on every page."""
