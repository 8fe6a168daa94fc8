"""This module runs supervisord so that it ends with its parent process.

It is run as ``python -m replview.runtime.supervised PARENT …``. When the command that started it
ends, even by SIGKILL, the kernel sends supervisord SIGTERM, and it stops its programs in their
order. Source: prctl(2), ``PR_SET_PDEATHSIG``.
"""

import ctypes
import os
import signal
import sys
import warnings

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel for SIGTERM at the parent's end, then run supervisord."""
    parent = int(sys.argv.pop(1))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("replview ended before supervisord had started")
    with warnings.catch_warnings():
        # supervisor 4.3 imports pkg_resources where it is installed, which emits a warning.
        warnings.simplefilter("ignore")
        from supervisor.supervisord import main as supervisord
    supervisord()


if __name__ == "__main__":
    main()
