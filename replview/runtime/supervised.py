"""``python -m replview.runtime.supervised PARENT …``: supervisord that never outlives its parent.

However the command that started it ends, even by SIGKILL, the kernel sends supervisord SIGTERM,
and it stops its programs in their order. Source: prctl(2), ``PR_SET_PDEATHSIG``.
"""

import ctypes
import os
import signal
import sys
import warnings

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie our life to the parent's, then become supervisord."""
    parent = int(sys.argv.pop(1))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("replview ended before supervisord had started")
    with warnings.catch_warnings():
        # supervisor 4.3 imports pkg_resources where it is installed, which warns of itself.
        warnings.simplefilter("ignore")
        from supervisor.supervisord import main as supervisord
    supervisord()


if __name__ == "__main__":
    main()
