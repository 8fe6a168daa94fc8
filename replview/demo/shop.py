"""This module adds the shop as the source of a stack.

``python -m replview.demo.shop register`` registers it with replview. It runs as its own process,
with the store's address in the environment, because the command that starts the stack read Django's
settings before there was a store. It may be run again.
"""

import sys

import django
from django.core.management import call_command

from replview.runtime.programs import priority
from replview.runtime.stack import Shop
from replview.runtime.supervisor import Program


def the_shop(rate: float | None) -> Shop:
    """Return the shop with ``rate`` transactions a second; None: without any."""
    # This program makes the troubles that the *make trouble* page requests, and undoes them.
    programs = [_program("trouble")]
    if rate is not None:
        programs.append(_program("workload", "--rate", f"{rate:g}"))
    return Shop(
        prepare=("replview.demo.workload", "--prepare"),
        register=("replview.demo.shop", "register"),
        programs=tuple(programs),
    )


def _program(name: str, *options: str) -> Program:
    """Return a program of the demo, which finds the database by ``REPLVIEW_DEMO_SOURCE_URL``."""
    argv = [sys.executable, "-m", f"replview.demo.{name}", *options]
    return Program(name=name, argv=argv, priority=priority(name))


def register_shop() -> None:
    """Add the shop as a source with one slot, as ``source add`` and ``slot add`` do.

    The source stores the variable's name instead of the DSN, because the port may change between
    starts.
    """
    from replview.store.models import Slot, Source

    if not Source.objects.filter(name="shop").exists():
        call_command("source", "add", "shop", "--dsn", "env:REPLVIEW_DEMO_SOURCE_URL", "--yes")
    if not Slot.objects.filter(source__name="shop", name="replview").exists():
        call_command("slot", "add", "shop", "replview", "--yes")


if __name__ == "__main__":
    django.setup()
    {"register": register_shop}[sys.argv[1]]()
