"""The API, as a program meets it."""
