"""``replview changepassword``: Django's command, with an entry in the access record."""

from typing import Any

from django.contrib.auth.management.commands.changepassword import Command as DjangoCommand

from replview.management.plain_help import PlainHelp
from replview.store.write.access_record import command_user, note


class Command(PlainHelp, DjangoCommand):
    """Django's command, which also notes the change in the access record."""

    help = "Set an account's password, at a terminal."
    examples = ("replview changepassword alice",)

    def handle(self, *args: Any, **options: Any) -> str | None:
        """Change the password and note it.

        Without a username, Django changes the account named like the operating system's user.
        """
        message = super().handle(*args, **options)
        name = options["username"] or command_user()
        details = {"act": "password changed", "account": name}
        note("changed_settings", subject=f"account {name}", details=details)
        return message
