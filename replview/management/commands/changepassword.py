"""``replview changepassword``: Django's; that it was done is in the access record."""

from typing import Any

from django.contrib.auth.management.commands.changepassword import Command as DjangoCommand

from replview.store.write.access_record import command_user, note


class Command(DjangoCommand):
    help = "Set an account's password, at a terminal."

    def handle(self, *args: Any, **options: Any) -> str | None:
        """Django's takes the operating system's account where none is named."""
        done = super().handle(*args, **options)
        name = options["username"] or command_user()
        details = {"act": "password changed", "account": name}
        note("changed_settings", subject=f"account {name}", details=details)
        return done
