"""This package turns numbers, times, types and addresses into text, without the store."""
