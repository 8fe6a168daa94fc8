"""This module makes the store a Django application."""

from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db.backends.signals import connection_created
from psycopg import sql

from replview.store.read.session import MomentLoader

_SETTINGS = """
    {bound}SET jit = off; SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres';
    SET bytea_output = 'hex'; SET extra_float_digits = 3; SET standard_conforming_strings = on
"""


class StoreConfig(AppConfig):
    """The store's application; its tables have plain names: ``slot``, ``change`` and so on."""

    name = "replview.store"
    label = "store"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Set up each session of Django when its connection is created."""
        connection_created.connect(_prepare_session, dispatch_uid="replview.store.session")


def _prepare_session(connection: Any, **_: Any) -> None:
    """Set output formats, a time limit, and no JIT: pages read few rows.

    Compiling a statement over ninety partitions would take longer than running it.
    """
    if connection.vendor == "postgresql":
        # Limit each statement, above all searches, so that no request keeps the store busy forever.
        bound: sql.Composable = sql.SQL("")
        if "pool" in connection.settings_dict["OPTIONS"]:
            bound = sql.SQL("SET statement_timeout = {}; ").format(
                f"{settings.WEB_STATEMENT_SECONDS}s"
            )
        connection.connection.adapters.register_loader("timestamptz", MomentLoader)
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL(_SETTINGS).format(bound=bound))
