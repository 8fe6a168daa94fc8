"""Sources: the list, one source's page, and what an admin does to it."""
