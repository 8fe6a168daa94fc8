"""Row history shows every change of one row, and the row as of a moment."""
