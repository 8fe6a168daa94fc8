"""Actors: who changed rows, and how many."""
