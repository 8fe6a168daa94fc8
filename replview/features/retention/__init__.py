"""The store's page: how long each slot keeps its record, and the size of the store."""
