"""Makes a slot of the bench source known to the store.

Usage: ``python -m tests.benchmarks.register_slot NAME [OPTIONS]``; prints the slot's identifier.
OPTIONS are pgoutput's, as JSON. The slot itself is on the source already.
"""

import json
import sys

import django


def register(name: str, options: dict[str, str]) -> int:
    """The slot's identifier. Django must be set up."""
    from replview.store.models import Slot, Source

    source, _ = Source.objects.get_or_create(name="bench", conninfo="env:BENCH_SOURCE")
    wanted = {"publications": ["bench"], "plugin": "pgoutput", "options": options}
    slot, _ = Slot.objects.update_or_create(source=source, name=name, defaults=wanted)
    return int(slot.pk)


if __name__ == "__main__":
    django.setup()
    print(register(sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}))
