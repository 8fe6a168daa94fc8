"""The shop as the source of a stack: what makes it, and who is in it.

``python -m replview.demo.shop register`` makes it a source of replview's, as a process of its own,
with the store's address in the environment: the command that starts the stack has read Django's
settings before there was a store. It may be done again.
"""

import sys

import django
from django.core.management import call_command

from replview.runtime.programs import priority
from replview.runtime.stack import Shop
from replview.runtime.supervisor import Program


def the_shop(rate: float | None) -> Shop:
    """With customers who make so many transactions a second; None: with none."""
    # Makes what the *make trouble* page asks for, and undoes it when it stops.
    programs = [_program("trouble")]
    if rate is not None:
        programs.append(_program("workload", "--rate", f"{rate:g}"))
    return Shop(
        prepare=("replview.demo.workload", "--prepare"),
        register=("replview.demo.shop", "register"),
        programs=tuple(programs),
    )


def _program(name: str, *options: str) -> Program:
    """A part of the demo; it finds the database by ``REPLVIEW_DEMO_SOURCE_URL``."""
    argv = [sys.executable, "-m", f"replview.demo.{name}", *options]
    return Program(name=name, argv=argv, priority=priority(name))


def register_shop() -> None:
    """Make the shop a source with one slot, as a user would with ``source add``, ``slot add``.

    The DSN is named, not given: the shop's port may be another one at the next start.
    """
    from replview.store.models import Slot, Source

    if not Source.objects.filter(name="shop").exists():
        call_command("source", "add", "shop", "--dsn", "env:REPLVIEW_DEMO_SOURCE_URL", "--yes")
    if not Slot.objects.filter(source__name="shop", name="replview").exists():
        call_command("slot", "add", "shop", "replview", "--yes")


if __name__ == "__main__":
    django.setup()
    {"register": register_shop}[sys.argv[1]]()
