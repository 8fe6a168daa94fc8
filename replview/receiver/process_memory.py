"""How a receiver's process treats memory: a batch makes some hundred thousand objects and frees
them again, several times a second.
"""

import ctypes
import gc
import sys

#: Objects made before the garbage collector looks at the youngest.
_COLLECT_AFTER = 200_000
#: glibc's names for ``mallopt`` (malloc.h).
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_TRIM_BYTES = 64 * 1024 * 1024
_PAD_BYTES = 4 * 1024 * 1024
#: Larger blocks (a value of many megabytes) still go back to the system when freed.
_MMAP_BYTES = 16 * 1024 * 1024


def prepare_for_batches() -> None:
    """Keep what a batch freed for the next, and do not look for cycles where there are none.

    Python's default would go through all objects after every 700 made; glibc's would give memory
    back after each batch and fault it in again page by page, a third of the receiver's CPU.
    """
    if gc.get_threshold()[0] >= _COLLECT_AFTER:
        return
    gc.set_threshold(_COLLECT_AFTER, 20, 100)
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:  # musl has none
            mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
            mallopt(_M_TOP_PAD, _PAD_BYTES)
            mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
