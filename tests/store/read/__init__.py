"""Reading the record, held against a naive replay of it."""
