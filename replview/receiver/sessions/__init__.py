"""A session reads a slot of a source: as a walsender's stream, or by polling SQL functions."""
