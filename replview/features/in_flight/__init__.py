"""In-flight transactions: those in progress, and prepared ones."""
