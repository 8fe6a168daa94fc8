"""The first admin, made in a browser by whoever sees what the terminal printed.

A code is good for a day and for one admin, and for nothing once there is one. The store keeps its
SHA-256; a code has 256 random bits, so that there is nothing to guess.
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
_LOCK = 7_402_331


def new_code() -> str | None:
    """A code; those before it are good for nothing. None: there is an admin."""
    with transaction.atomic():
        _one_at_a_time()
        if admins().exists():
            return None
        SetupCode.objects.all().delete()
        code = secrets.token_urlsafe(32)
        SetupCode.objects.create(digest=_digest(code), expires_at=timezone.now() + GOOD_FOR)
    return code


def is_good(code: str) -> bool:
    """Whether an admin can be made with it now."""
    return _row(code) is not None and not admins().exists()


def first_admin(code: str, name: str, password: str) -> User | None:
    """The admin, or None where the code is not good. Raises ``AccountProblem``."""
    with transaction.atomic():
        _one_at_a_time()
        row = _row(code)
        if row is None or admins().exists():
            return None
        user = create_account(name, Role.ADMIN, password)
        row.used_at = timezone.now()
        row.save(update_fields=["used_at"])
    return user


def _row(code: str) -> SetupCode | None:
    good = SetupCode.objects.filter(used_at=None, expires_at__gt=timezone.now())
    return good.filter(digest=_digest(code)).first()


def _one_at_a_time() -> None:
    """Two browsers with the code at once make one admin."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
