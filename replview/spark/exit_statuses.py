"""Exit statuses of jobs, as schedulers such as Airflow read them."""

from typing import Final

DONE: Final = 0
FAILED: Final = 1
NOTHING_NEW: Final = 2
#: A lake or an answer went on over a gap.
GAP: Final = 3
#: A signal stopped an export or the archive.
CANCELLED: Final = 3
WRONG_USE: Final = 64
