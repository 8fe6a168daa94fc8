"""``python -m replview.runtime.first_run store``: what a new store needs: its schema and a login.

Run as a process of its own, with the store's address in the environment: the command that starts
the stack has read Django's settings before there was a store. It may be done again.
"""

import os
import sys

import django
from django.core.management import call_command


def prepare_store() -> None:
    """Bring the store's schema up to date and make sure the login works."""
    call_command("migrate", verbosity=0, interactive=False)
    if password := os.environ.get("REPLVIEW_LOGIN_PASSWORD"):
        ensure_login(os.environ.get("REPLVIEW_LOGIN", "demo"), password)


def ensure_login(name: str, password: str) -> None:
    """The superuser with this password, which is the one kept in the data folder."""
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
