"""``replview migrate``: Django's command, made safe for a large store that is in use.

Only one process migrates at a time; others that start together with it wait. Steps do not queue for
locks: an ALTER TABLE that waits behind a long query blocks everybody behind itself. So each step
gives up after ``--lock-seconds`` and tries again.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.core.management.base import CommandError, CommandParser
from django.core.management.commands.migrate import Command as DjangoMigrate
from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from replview.management.plain_help import PlainHelp

#: Key of replview's advisory lock: "replview" typed on a telephone keypad.
_LOCK = 73_758_439
#: Temporary errors after which another attempt may succeed.
_TRANSIENT_ERRORS = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
_TABLE_LOCKED = (
    "another session holds a lock on a table, so the migration could not continue: end long "
    "queries and transactions on the store (SELECT * FROM pg_stat_activity), then run 'replview "
    "migrate' again"
)
_HALF_MIGRATED = (
    "the store has only some of the tables of the release before this one (up to {last}): run "
    "'replview migrate' of that release first, then of this one; or restore its back-up"
)
_ALREADY_MIGRATING = (
    "another process is still migrating the store: wait for its end, then start again"
)


class Command(PlainHelp, DjangoMigrate):
    """Django's command, with a migration lock and short lock waits."""

    help = (
        "Update the store's tables to this version, while the store is in use. The options of "
        "Django's command 'migrate' work, too."
    )
    examples = ("replview migrate",)

    def add_arguments(self, parser: CommandParser) -> None:
        """Add Django's options, and how long to wait for locks."""
        super().add_arguments(parser)
        option = parser.add_argument
        lock = "seconds that a step waits for a lock before it tries again (default: 2)"
        option("--lock-seconds", type=float, default=2.0, metavar="N", help=lock)
        patience = "seconds after which to give up (default: 1800)"
        option("--patience-seconds", type=float, default=1800.0, metavar="N", help=patience)

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate; if a table stays locked for too long, raise an error with a remedy."""
        connection = connections[options["database"]]
        deadline = time.monotonic() + options["patience_seconds"]
        with _one_at_a_time(connection, deadline), _short_waits(connection, options):
            _refuse_half_migrated(connection)
            while True:
                try:
                    super().handle(*args, **options)
                    return
                except OperationalError as error:
                    if not isinstance(error.__cause__, _TRANSIENT_ERRORS):
                        raise
                    if time.monotonic() > deadline:
                        raise CommandError(_TABLE_LOCKED) from None
                    time.sleep(0.5)


@contextmanager
def _one_at_a_time(connection: BaseDatabaseWrapper, deadline: float) -> Iterator[None]:
    """Hold the store's migration lock.

    Poll for the lock: a statement that waits for it would hold a snapshot, and CREATE INDEX
    CONCURRENTLY would wait for that snapshot in turn.
    """
    while not _ask(connection, "SELECT pg_try_advisory_lock(%s)"):
        if time.monotonic() > deadline:
            raise CommandError(_ALREADY_MIGRATING)
        time.sleep(0.2)
    try:
        yield
    finally:
        if connection.is_usable():
            _ask(connection, "SELECT pg_advisory_unlock(%s)")


def _refuse_half_migrated(connection: BaseDatabaseWrapper) -> None:
    """Raise ``CommandError`` if only some of the replaced migrations were applied.

    The files of replaced migrations are gone, and Django would report nothing to migrate.
    """
    applied = MigrationRecorder(connection).applied_migrations()
    for migration in MigrationLoader(None).replacements.values():
        applied_replaced = [replaced for replaced in migration.replaces if replaced in applied]
        if applied_replaced and len(applied_replaced) < len(migration.replaces):
            raise CommandError(_HALF_MIGRATED.format(last=applied_replaced[-1][1]))


def _ask(connection: BaseDatabaseWrapper, query: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(query, [_LOCK])
        return bool(cursor.fetchone()[0])


@contextmanager
def _short_waits(connection: BaseDatabaseWrapper, options: dict[str, Any]) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('lock_timeout', %s, false)",
            [str(int(options["lock_seconds"] * 1000))],
        )
    try:
        yield
    finally:
        if connection.is_usable():
            with connection.cursor() as cursor:
                cursor.execute("RESET lock_timeout")
