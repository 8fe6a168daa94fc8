"""Mask rules decide which column values are hidden from every account."""
