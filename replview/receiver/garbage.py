"""How often Python looks for cycles among objects."""

import gc

#: Objects made before the garbage collector looks at the youngest.
_THRESHOLD = 200_000


def let_collection_rest() -> None:
    """A batch makes some hundred thousand objects without a cycle among them: collecting after
    every 700 (Python's default) would go through them again and again for nothing.
    """
    if gc.get_threshold()[0] < _THRESHOLD:
        gc.set_threshold(_THRESHOLD, 20, 100)
