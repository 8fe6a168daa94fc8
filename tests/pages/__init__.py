"""Pages, as a browser gets them."""
