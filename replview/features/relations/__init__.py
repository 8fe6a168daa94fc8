"""The tables of a slot's stream, and the schema history of each."""
