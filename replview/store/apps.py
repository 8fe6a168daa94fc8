"""The store as a Django application."""

from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db.backends.signals import connection_created

from replview.store.read.session import MomentLoader


class StoreConfig(AppConfig):
    """Its tables carry the plain names of the design: ``slot``, ``transaction``, ``change``."""

    name = "replview.store"
    label = "store"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have every session of Django's take what is asked here as it comes."""
        connection_created.connect(_prepare_session, dispatch_uid="replview.store.session")


def _prepare_session(connection: Any, **_: Any) -> None:
    """To compile a statement over ninety partitions takes longer than to run it: pages read few
    rows.
    """
    if connection.vendor == "postgresql":
        # No request keeps the store busy for ever: what somebody searched for, least of all.
        bound = ""
        if "pool" in connection.settings_dict["OPTIONS"]:
            bound = f"SET statement_timeout = '{settings.WEB_STATEMENT_SECONDS}s'; "
        connection.connection.adapters.register_loader("timestamptz", MomentLoader)
        with connection.cursor() as cursor:
            cursor.execute(
                f"{bound}SET jit = off; "
                "SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres'; "
                "SET bytea_output = 'hex'; SET extra_float_digits = 3; "
                "SET standard_conforming_strings = on"
            )
