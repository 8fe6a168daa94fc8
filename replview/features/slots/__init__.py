"""Slots: the list, one slot's page, and what an operator does to it."""
