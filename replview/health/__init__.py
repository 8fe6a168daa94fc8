"""The conditions of slots and sources: what is wrong, how urgent it is, and what to do."""
