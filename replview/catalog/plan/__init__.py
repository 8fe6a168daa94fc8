"""This package makes plans: the statements that change a source, shown before they run."""
