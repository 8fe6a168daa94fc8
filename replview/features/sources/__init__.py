"""The pages of sources: the list, one source, and what an admin can do to it."""
