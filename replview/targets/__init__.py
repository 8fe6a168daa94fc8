"""Where slices may be written, and the roots that are known."""
