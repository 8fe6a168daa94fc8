"""*Make trouble* is a page of the demo that causes failures on purpose."""
