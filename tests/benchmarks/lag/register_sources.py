"""Makes sources known to the store, each with the slot of it that is replview's.

Usage: ``python -m tests.benchmarks.lag.register_sources``; reads ``[[name, dsn, slot], …]`` as JSON
from ``BENCH_SOURCES``. The slots are on the sources already, and nobody is to receive them.
"""

import json
import os

import django


def register() -> None:
    """Store the sources and slots of ``BENCH_SOURCES``. Django must be set up."""
    from replview.store.dsn import set_dsn
    from replview.store.models import Slot, Source

    for name, dsn, slot in json.loads(os.environ["BENCH_SOURCES"]):
        source = Source(name=name)
        set_dsn(source, dsn)
        source.save()
        Slot.objects.create(
            source=source, name=slot, publications=["bench"], desired=Slot.Desired.STOPPED
        )


if __name__ == "__main__":
    django.setup()
    register()
