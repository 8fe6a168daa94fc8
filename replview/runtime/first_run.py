"""This module prepares a new store: ``python -m replview.runtime.first_run store``.

It creates the schema and a login. It runs as its own process, with the store's address in the
environment, because the command that starts the stack read Django's settings before there was a
store. It may be run again.
"""

import os
import sys

import django
from django.core.management import call_command


def prepare_store() -> None:
    """Migrate the store's schema and make sure that the login works."""
    call_command("migrate", verbosity=0, interactive=False)
    if password := os.environ.get("REPLVIEW_LOGIN_PASSWORD"):
        ensure_login(os.environ.get("REPLVIEW_LOGIN", "demo"), password)


def ensure_login(name: str, password: str) -> None:
    """Create the superuser, or set its password to the one kept in the data folder."""
    from django.contrib.auth import get_user_model

    users = get_user_model()
    user = users.objects.filter(username=name).first()
    if user is None:
        users.objects.create_superuser(username=name, password=password)
    elif not user.check_password(password):
        user.set_password(password)
        user.save(update_fields=["password"])


if __name__ == "__main__":
    django.setup()
    {"store": prepare_store}[sys.argv[1]]()
