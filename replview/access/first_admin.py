"""Create the first admin in a browser, with a code that the terminal printed.

A code is valid for a day, for one admin, and only while there is none. The store keeps its
SHA-256. A code has 256 random bits, so it cannot be guessed.
"""

import datetime as dt
import hashlib
import secrets

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone

from replview.access.accounts import create_account
from replview.access.rights import Role, admins
from replview.store.models import SetupCode

GOOD_FOR = dt.timedelta(hours=24)
_LOCK_ID = 7_402_331


def new_code() -> str | None:
    """Make a code and delete the former ones. Returns None where there is an admin already."""
    with transaction.atomic():
        _lock_setup()
        if admins().exists():
            return None
        SetupCode.objects.all().delete()
        code = secrets.token_urlsafe(32)
        SetupCode.objects.create(digest=_digest(code), expires_at=timezone.now() + GOOD_FOR)
    return code


def is_good(code: str) -> bool:
    """Return whether this code can make an admin now."""
    return _valid_code(code) is not None and not admins().exists()


def first_admin(code: str, name: str, password: str) -> User | None:
    """Create the admin, or return None where the code is invalid. Raises ``AccountProblem``."""
    with transaction.atomic():
        _lock_setup()
        setup_code = _valid_code(code)
        if setup_code is None or admins().exists():
            return None
        user = create_account(name, Role.ADMIN, password, by_owner=True)
        setup_code.used_at = timezone.now()
        setup_code.save(update_fields=["used_at"])
    return user


def _valid_code(code: str) -> SetupCode | None:
    unexpired = SetupCode.objects.filter(used_at=None, expires_at__gt=timezone.now())
    return unexpired.filter(digest=_digest(code)).first()


def _lock_setup() -> None:
    """Lock until the transaction ends, so that two browsers with the code make one admin."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK_ID])


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
