"""``replview changepassword``: Django's command, with an entry in the access record."""

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.management.commands.changepassword import Command as DjangoCommand

from replview.access.accounts import mark_assigned
from replview.management.plain_help import PlainHelp
from replview.store.write.access_record import command_user, note


class Command(PlainHelp, DjangoCommand):
    """Django's command, which also has the password changed at the next sign-in, and notes it."""

    help = "Set a password at a terminal; its owner changes it at the next sign-in."
    examples = ("replview changepassword alice",)

    def handle(self, *args: Any, **options: Any) -> str | None:
        """Change the password and note it.

        Without a username, Django changes the account named like the operating system's user.
        """
        message = super().handle(*args, **options)
        name = options["username"] or command_user()
        mark_assigned(get_user_model()._default_manager.get_by_natural_key(name))
        details = {"act": "password changed", "account": name}
        note("changed_settings", subject=f"account {name}", details=details)
        return message
