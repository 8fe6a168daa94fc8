"""Adding a source in the browser: what each step shows, asks and keeps."""
