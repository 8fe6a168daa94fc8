"""Secrets in the store are encrypted with a key derived from the instance's secret key.

The first key encrypts; it and the former ones (``REPLVIEW_SECRET_KEYS_OLD``) decrypt, so that
secrets stay readable while the key is changed: ``replview secrets rotate``.
"""

import base64
from typing import Self

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.apps import apps
from django.conf import settings
from django.db import models, transaction

from replview.text.problem import Problem

#: Purpose in the derivation, so that this key differs from others derived from the same secret.
_PURPOSE = b"replview: passwords of sources"


class SecretKeyChanged(Problem):
    """The secret was encrypted with another REPLVIEW_SECRET_KEY."""

    def __init__(self) -> None:
        super().__init__(
            "secret_key",
            "the password was sealed with another REPLVIEW_SECRET_KEY: name that one in "
            "REPLVIEW_SECRET_KEYS_OLD and run 'replview secrets rotate', or give the source its "
            "password again with 'replview source credentials'",
        )

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()


def seal(secret: str) -> str:
    """Encrypt and sign a secret; the result is text that is safe to store."""
    return _keys().encrypt(secret.encode()).decode()


def unseal(sealed: str, *, within_seconds: int | None = None) -> str:
    """Decrypt a secret. Raises ``SecretKeyChanged``, also for one older than ``within_seconds``."""
    try:
        return _keys().decrypt(sealed.encode(), ttl=within_seconds).decode()
    except InvalidToken:
        raise SecretKeyChanged from None


def rotate_all() -> tuple[int, list[str]]:
    """Encrypt every secret again with the first key.

    Returns the number of secrets, and those that no key could decrypt (``source.sealed_password of
    3``), which stay as they are.
    """
    count, lost = 0, []
    for model, name in _sealed_fields():
        for key in model._base_manager.exclude(**{name: ""}).values_list("pk", flat=True):
            with transaction.atomic():
                row = model._base_manager.select_for_update().filter(pk=key)
                sealed = row.values_list(name, flat=True).first()
                if not sealed:
                    continue
                try:
                    row.update(**{name: _keys().rotate(sealed.encode()).decode()})
                    count += 1
                except InvalidToken:
                    lost.append(f"{model._meta.db_table}.{name} of {key}")
    return count, lost


def _sealed_fields() -> list[tuple[type[models.Model], str]]:
    """Return the fields with results of ``seal``: the store's text fields named ``sealed_…``."""
    return [
        (model, field.name)
        for model in apps.get_app_config("store").get_models()
        if model._meta.managed
        for field in model._meta.concrete_fields
        if isinstance(field, models.TextField) and field.name.startswith("sealed_")
    ]


def _keys() -> MultiFernet:
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return MultiFernet([_derived(key) for key in keys])


def _derived(key: str) -> Fernet:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE)
    return Fernet(base64.urlsafe_b64encode(derived.derive(key.encode())))
