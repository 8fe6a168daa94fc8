"""This module registers access as a Django application."""

from django.apps import AppConfig


class AccessConfig(AppConfig):
    """The application of access. It has no tables of its own; they belong to the store."""

    name = "replview.access"
    label = "access"

    def ready(self) -> None:
        """Connect the signals of signing in and out, once in each process."""
        # Only now are the models loaded that the import needs.
        from replview.access import session_policy  # noqa: F401
