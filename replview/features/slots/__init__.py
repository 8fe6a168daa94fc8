"""The pages of slots: the list, one slot, and what an operator can do to it."""
