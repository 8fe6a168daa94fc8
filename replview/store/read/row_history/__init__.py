"""Find a row's changes, its state at a moment, and its keys."""
