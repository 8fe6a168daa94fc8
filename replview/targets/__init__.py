"""Where slices may be written, and what the archive tells on pages."""
