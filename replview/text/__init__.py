"""Numbers, times, types and addresses as text; nothing of the store."""
