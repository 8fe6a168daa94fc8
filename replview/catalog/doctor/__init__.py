"""Doctor: what a source lacks to be replicated, one module a kind of check."""
