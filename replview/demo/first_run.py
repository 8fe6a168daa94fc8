"""``python -m replview.demo.first_run shop``: make the shop a source of replview's, with a slot.

Run as a process of its own, with the store's address in the environment: the command that starts
the stack has read Django's settings before there was a store. It may be done again.
"""

import sys

import django
from django.core.management import call_command


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
    {"shop": register_shop}[sys.argv[1]]()
