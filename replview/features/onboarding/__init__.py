"""Adding a source in the browser, step by step."""
