"""History jobs over exported changes."""
