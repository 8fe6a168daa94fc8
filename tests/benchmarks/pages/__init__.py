"""Measures how long the server takes for its pages over ten million changes of ninety days."""
