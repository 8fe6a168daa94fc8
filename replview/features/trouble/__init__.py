"""*Make trouble*: a page of the demo."""
