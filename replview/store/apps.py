"""The store as a Django application."""

from django.apps import AppConfig


class StoreConfig(AppConfig):
    """Its tables carry the plain names of the design: ``slot``, ``transaction``, ``change``."""

    name = "replview.store"
    label = "store"
    default_auto_field = "django.db.models.BigAutoField"
