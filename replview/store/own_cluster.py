"""The cluster the store itself is in, to compare with a source's."""

from django.conf import settings
from django.db import DatabaseError, connection


def store_system_identifier() -> str | None:
    """Its system identifier; None when it cannot be told."""
    if not settings.STORE_URL:
        return None
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT system_identifier FROM pg_control_system()")
            return str(int(cursor.fetchone()[0]) % (1 << 64))
    except DatabaseError:
        return None
