"""Access as a Django application: sign-ins go into the access record."""

from django.apps import AppConfig


class AccessConfig(AppConfig):
    """It has no tables of its own: those are the store's."""

    name = "replview.access"
    label = "access"

    def ready(self) -> None:
        """Listen to Django's signals of signing in and out, once a process."""
        # Models are loaded only now.
        from replview.access import session_policy  # noqa: F401
