"""``replview createsuperuser``: Django's; the admin it makes is in the access record."""

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.management.commands.createsuperuser import Command as DjangoCommand

from replview.store.write.access_record import note


class Command(DjangoCommand):
    help = "Make an admin's account, at a terminal."

    def handle(self, *args: Any, **options: Any) -> None:
        """Whoever is an admin after it and was none before was made by it."""
        admins = get_user_model()._default_manager.filter(is_superuser=True)
        before = list(admins.values_list("pk", flat=True))
        super().handle(*args, **options)
        for user in admins.exclude(pk__in=before):
            details = {"act": "account created", "account": user.get_username(), "role": "admin"}
            note("changed_settings", subject=f"account {user}", details=details)
