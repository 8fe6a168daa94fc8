"""The inlined path of Insert, Update and Delete."""
