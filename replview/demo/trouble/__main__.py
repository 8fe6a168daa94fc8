"""This module runs the process of a demo that makes troubles, configured by the environment."""

import logging
import os
import signal
import sys
import threading
from pathlib import Path

import django


def main() -> int:
    """Run until SIGTERM or SIGINT, and return the exit status."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    dsn, data = os.environ.get("REPLVIEW_DEMO_SOURCE_URL"), os.environ.get("REPLVIEW_DATA")
    if not dsn or not data:
        print("trouble: this is a part of `replview demo`, which starts it", file=sys.stderr)
        return 2
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    django.setup()
    from replview.demo.trouble.maker import run
    from replview.demo.trouble.place import TroubleSite

    run(TroubleSite(dsn=dsn, data=Path(data)), stopping)
    return 0


if __name__ == "__main__":
    sys.exit(main())
