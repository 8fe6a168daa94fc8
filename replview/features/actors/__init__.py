"""Actors: who changed something, and how much."""
