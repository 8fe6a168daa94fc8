"""Mask rules: which columns nobody sees."""
