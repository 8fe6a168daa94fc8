"""Events → one store transaction: the write path of a session."""
