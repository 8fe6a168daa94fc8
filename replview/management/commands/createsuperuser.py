"""``replview createsuperuser``: Django's command, with an entry in the access record."""

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.management.commands.createsuperuser import Command as DjangoCommand

from replview.management.plain_help import PlainHelp
from replview.store.write.access_record import note


class Command(PlainHelp, DjangoCommand):
    """Django's command, which also notes the new admin in the access record."""

    help = "Create an admin account, at a terminal."
    examples = ("replview createsuperuser --username alice",)

    def handle(self, *args: Any, **options: Any) -> None:
        """Create the account, and note every account that has become an admin meanwhile."""
        admins = get_user_model()._default_manager.filter(is_superuser=True)
        former_admin_ids = list(admins.values_list("pk", flat=True))
        super().handle(*args, **options)
        for user in admins.exclude(pk__in=former_admin_ids):
            details = {"act": "account created", "account": user.get_username(), "role": "admin"}
            note("changed_settings", subject=f"account {user}", details=details)
