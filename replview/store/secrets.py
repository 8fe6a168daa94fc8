"""Passwords at rest: sealed with a key derived from the instance's secret key."""

import base64

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

#: Names the use, so that no other key derived from the same secret is ever equal.
_PURPOSE = b"replview: passwords of sources"


class SecretKeyChanged(Exception):
    """What was sealed was sealed with another REPLVIEW_SECRET_KEY."""

    def __init__(self) -> None:
        super().__init__(
            "the password was sealed with another REPLVIEW_SECRET_KEY: set the one it was sealed "
            "with, or remove the source and add it again"
        )


def seal(secret: str) -> str:
    """Encrypt and sign; the result is text and safe to store."""
    return _fernet().encrypt(secret.encode()).decode()


def unseal(sealed: str) -> str:
    """The secret again. Raises ``SecretKeyChanged``."""
    try:
        return _fernet().decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise SecretKeyChanged from None


def _fernet() -> Fernet:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE)
    return Fernet(base64.urlsafe_b64encode(derived.derive(settings.SECRET_KEY.encode())))
