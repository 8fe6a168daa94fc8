"""Health decides what is wrong with slots and sources, how urgent it is, and what to do."""
