"""Accounts of the store, each loaded together with its rights: no query more a request."""

from typing import Any

from django.contrib.auth.backends import ModelBackend

from replview.access.rights import users_with_rights


class RightsBackend(ModelBackend):
    """Names and passwords, as Django checks them."""

    def get_user(self, user_id: Any) -> Any:
        """The account of a session; None where it is gone or closed."""
        user = users_with_rights().filter(pk=user_id).first()
        return user if user is not None and self.user_can_authenticate(user) else None
