"""``replview up``: start all processes of replview, with the user's own store and broker."""

import ipaddress
from argparse import ArgumentParser
from functools import partial
from typing import Any

import psycopg
import redis
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections
from redis.backoff import NoBackoff
from redis.retry import Retry

from replview.access.first_admin import new_code
from replview.management.instance import PlainCommand
from replview.runtime.data_folder import DataFolder
from replview.runtime.environment import is_given
from replview.runtime.foreground import run_in_foreground
from replview.runtime.machine import StackProblem
from replview.runtime.programs import KINDS, become, program
from replview.runtime.stack import Stack

#: Minimum length of a secret key, and minimum number of different characters in it.
_LEAST_CHARACTERS, _LEAST_DIFFERENT = 32, 5
#: Beginnings of keys that documents and templates use as examples.
_PLACEHOLDERS = ("not-for-production", "django-insecure", "change", "a long random text", "secret")
_SECRET_REMEDY = "Make one: python3 -c 'import secrets; print(secrets.token_urlsafe(50))'"


class Command(PlainCommand):
    """The command that runs replview in the foreground."""

    help = (
        "Start replview with your own store and broker. It starts the workers, the scheduler and "
        "the web server. REPLVIEW_STORE_URL and REPLVIEW_REDIS_URL name the two servers; "
        "docs/reference/settings.md lists all variables."
    )
    examples = ("replview up", "replview up --host 0.0.0.0 --receivers 2")

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the options of ``up``."""
        option = parser.add_argument
        option("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
        option("--port", type=int, default=8642, help="port of the web pages (default: 8642)")
        receivers = "number of processes that receive slots (default: 1)"
        option("--receivers", type=int, default=1, metavar="N", help=receivers)
        data = "folder for logs and process files (default: .replview)"
        option("--data", default=settings.DATA_DIR, help=data)
        only = "run only this process, for systemd or containers"
        option("--only", choices=KINDS, help=only)
        option("--name", default="", help="with --only: the worker's name, if several share a host")

    def handle(self, **options: Any) -> None:
        """Run until stopped; a problem prints one line and exits with status 1."""
        if options["only"]:
            self._run_alone(**options)
        stack = Stack(
            folder=DataFolder(options["data"]),
            host=options["host"],
            port=options["port"],
            receivers=max(1, options["receivers"]),
            own_servers=False,
        )

        def welcome() -> None:
            stack.say.line(f"replview is at {stack.url}, logs in {stack.folder.logs}")
            if first := first_admin_line(url_of_pages(stack.host, stack.port)):
                stack.say.line(first)

        check = partial(check_environment, options["host"])
        run_in_foreground(stack, check=check, welcome=welcome)

    def _run_alone(self, **options: Any) -> None:
        """Check the environment, migrate the store, and become the chosen process."""
        if options["receivers"] != 1:
            raise CommandError(
                "--only receivers starts one worker: start several, each with a --name"
            )
        folder = DataFolder(options["data"])
        check_environment(options["host"])
        folder.create()
        call_command("migrate", verbosity=0, interactive=False)
        connections.close_all()
        kind, host, port = options["only"], options["host"], options["port"]
        if kind == "web" and (first := first_admin_line(url_of_pages(host, port))):
            self.stdout.write(first)
            self.stdout.flush()
        become(program(kind, folder=folder, host=host, port=port, name=options["name"]), folder)


def first_admin_line(url: str) -> str:
    """Return the line with the setup address, or an empty text if there is an admin."""
    code = new_code()
    connections.close_all()
    if code is None:
        return ""
    setup_url = f"{url}/setup/{code}/"
    return f"There is no admin yet: create the first one within 24 hours at {setup_url}"


def url_of_pages(host: str, port: int) -> str:
    """Return the URL of the pages, as far as the settings show it.

    It is the proxy's origin if one is set, else ``host``. If ``host`` means all addresses, as in a
    container, it is the first allowed host name.
    """
    origins = [origin for origin in settings.CSRF_TRUSTED_ORIGINS if "*" not in origin]
    if origins:
        return origins[0].rstrip("/")
    if host in ("0.0.0.0", "::"):
        names = (name for name in settings.ALLOWED_HOSTS if not name.startswith(("*", ".")))
        host = next(names, "127.0.0.1")
    elif ":" in host:
        host = f"[{host}]"
    return f"http://{host}:{port}"


def check_environment(host: str) -> None:
    """Raise ``StackProblem`` unless the environment is complete and both servers answer.

    The settings must also be safe for listening on ``host``.
    """
    for name, example in (
        ("REPLVIEW_STORE_URL", "postgresql://replview:secret@db.example:5432/replview"),
        ("REPLVIEW_REDIS_URL", "redis://:secret@cache.example:6379/0"),
        ("REPLVIEW_SECRET_KEY", "a long random text, the same at every start"),
    ):
        if not is_given(name):
            raise StackProblem(f"{name} is not set", f"Set it, for example: {name}={example}")
    check_hardened(host)
    check_store(settings.STORE_URL)
    check_redis(settings.REDIS_URL)


def check_store(url: str) -> None:
    """Raise ``StackProblem`` unless the store is usable.

    It must be reachable and writable, and give each connection a server session of its own.
    """
    connect = partial(psycopg.connect, url, connect_timeout=5, autocommit=True)
    pid = "SELECT pg_backend_pid()"
    try:
        with connect() as connection, connect() as second_connection:
            sessions = (connection, second_connection, second_connection, connection) * 2
            pids = [session.execute(pid).fetchone() for session in sessions]
            row = connection.execute(
                "SELECT has_schema_privilege(current_schema(), 'CREATE'), pg_is_in_recovery()"
            ).fetchone()
    except psycopg.Error as error:
        # libpq's message names host, port and user, but not the password.
        cause = f"the store cannot be reached: {' '.join(str(error).split())}"
        raise StackProblem(cause, "Check REPLVIEW_STORE_URL and that the database exists") from None
    if pids != [pids[0], pids[1], pids[1], pids[0]] * 2 or pids[0] == pids[1]:
        # Session locks and settings would be lost, or shared with other clients.
        cause = "a pooler in front of the store gives each transaction another server session"
        remedy = "Point REPLVIEW_STORE_URL at the server itself, or use pool_mode = session"
        raise StackProblem(cause, remedy)
    may_create, is_standby = row or (False, False)
    if is_standby:
        raise StackProblem("the store is a standby", "Point REPLVIEW_STORE_URL at the primary")
    if not may_create:
        remedy = "As the owner of the database: GRANT CREATE ON SCHEMA public TO that user"
        raise StackProblem("the store's user may not create tables", remedy)


def check_redis(url: str) -> None:
    """Raise ``StackProblem`` unless the broker answers."""
    try:
        no_retry = Retry(NoBackoff(), 0)
        client = redis.Redis.from_url(
            url, socket_connect_timeout=5, socket_timeout=5, retry=no_retry
        )
        with client:
            client.ping()
    except (redis.RedisError, ValueError) as error:
        remedy = "Check REPLVIEW_REDIS_URL and that the server runs"
        raise StackProblem(f"Redis cannot be reached: {error}", remedy) from None


def check_hardened(host: str) -> None:
    """Raise ``StackProblem`` unless these settings are safe for others to reach."""
    key = settings.SECRET_KEY
    if key.lower().startswith(_PLACEHOLDERS):
        raise StackProblem("REPLVIEW_SECRET_KEY is a placeholder", _SECRET_REMEDY)
    if len(key) < _LEAST_CHARACTERS or len(set(key)) < _LEAST_DIFFERENT:
        raise StackProblem(
            f"REPLVIEW_SECRET_KEY has fewer than {_LEAST_CHARACTERS} characters, or only a few "
            "different ones",
            _SECRET_REMEDY,
        )
    if settings.DEBUG and not is_loopback(host):
        raise StackProblem(
            f"REPLVIEW_DEBUG=1 shows settings and code to everybody, and {host} can be reached "
            "from other machines",
            "Unset REPLVIEW_DEBUG, or listen on 127.0.0.1",
        )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
