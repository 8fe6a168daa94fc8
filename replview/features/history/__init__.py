"""History jobs compute over exported changes."""
