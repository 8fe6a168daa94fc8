"""Names that tests of the receiver may take."""

import itertools

_numbers = itertools.count(1)


def unused(name: str) -> str:
    """A name for a database that no other test of this run has taken."""
    return f"{name}_{next(_numbers)}"
