"""Troubles of the demo, and what replview says of them."""
