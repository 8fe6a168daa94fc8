"""What each slot keeps of its record, and the size of the store."""
