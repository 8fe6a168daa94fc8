"""The archive: all of history in the exports' layout, written in its order, counted, read back."""
