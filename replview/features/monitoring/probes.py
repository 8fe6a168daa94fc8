"""``/healthz`` and ``/readyz`` serve process managers and load balancers.

``/healthz`` makes no check: an answer means that the process lives, and a restart would not bring
an unreachable store back. ``/readyz`` checks the store and Redis. It is 503 if the store cannot be
reached or lacks a migration. Without Redis pages still work but refresh more slowly, so that check
is reported and does not make the process unready.

Both are answered before the host name is checked, because probes use the address. Any client gets
the state of each check; a program with a token also gets its duration and the kind of its error.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import psycopg
import redis.asyncio
from asgiref.sync import async_to_sync, iscoroutinefunction, sync_to_async
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseError
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.utils.decorators import sync_and_async_middleware
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from replview.access.tokens import good_token

#: Time limit of each check; the checks run concurrently.
CHECK_SECONDS = 2.0
#: Checks that this process cannot do without.
_REQUIRED_CHECKS = ("store", "migrations")
#: Connection parameters of Django that libpq does not know.
_NOT_LIBPQ = {"autocommit", "context", "cursor_factory", "pool", "prepare_threshold"}


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one readiness check."""

    #: ``ok``, ``failed`` or ``late``; for migrations also ``missing`` or ``unknown``.
    word: str
    seconds: float
    #: The kind of error; never its text, which may hold an address.
    error: str = ""


@sync_and_async_middleware
def ProbesMiddleware(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Answer ``/healthz`` and ``/readyz``, and pass on every other request."""
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            if request.path_info == "/healthz":
                return _json({"alive": True}, 200)
            if request.path_info == "/readyz":
                return await _readiness(request)
            response: HttpResponseBase = await get_response(request)
            return response

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        if request.path_info == "/healthz":
            return _json({"alive": True}, 200)
        if request.path_info == "/readyz":
            return async_to_sync(_readiness)(request)
        response: HttpResponseBase = get_response(request)
        return response

    return answer


async def _readiness(request: HttpRequest) -> HttpResponseBase:
    """Run the checks and return their states, with details for a program with a token."""
    (store, migrations), broker = await asyncio.gather(_check_store(), _run_check(_ping_redis))
    checks = {"store": store, "migrations": migrations, "redis": broker}
    ready = all(checks[name].word == "ok" for name in _REQUIRED_CHECKS)
    listed: dict[str, object] = {name: check.word for name, check in checks.items()}
    if store.word == "ok" and await _has_valid_token(request):
        listed = {
            name: {"state": check.word, "seconds": round(check.seconds, 4), "error": check.error}
            for name, check in checks.items()
        }
    return _json({"ready": ready, "checks": listed}, 200 if ready else 503)


async def _check_store() -> tuple[Check, Check]:
    """Check that the store answers, and that it has every migration of this version."""
    missing: list[tuple[str, str]] = []

    async def find_missing() -> None:
        missing.extend(await _missing_migrations())

    store_check = await _run_check(find_missing)
    if store_check.error == psycopg.errors.UndefinedTable.__name__:
        return Check("ok", store_check.seconds), Check("missing", store_check.seconds)
    if store_check.word != "ok":
        return store_check, Check("unknown", store_check.seconds)
    return store_check, Check("missing" if missing else "ok", store_check.seconds)


async def _run_check(check: Callable[[], Awaitable[None]]) -> Check:
    """Run a check within ``CHECK_SECONDS``, and return its result instead of raising."""
    began = time.monotonic()
    word, error = "ok", ""
    try:
        await asyncio.wait_for(check(), CHECK_SECONDS)
    except TimeoutError:
        word = "late"
    except (psycopg.Error, redis.RedisError, OSError, ValueError) as failure:
        word, error = "failed", type(failure).__name__
    return Check(word, time.monotonic() - began, error)


async def _missing_migrations() -> list[tuple[str, str]]:
    """Return the migrations that the store lacks, over a connection outside the pool."""
    parameters = connections["default"].get_connection_params()
    address = {name: value for name, value in parameters.items() if name not in _NOT_LIBPQ}
    async with await psycopg.AsyncConnection.connect(
        **{**address, "connect_timeout": 2, "application_name": "replview readyz"}, autocommit=True
    ) as connection:
        cursor = await connection.execute("SELECT app, name FROM django_migrations")
        applied = {(str(app), str(name)) for app, name in await cursor.fetchall()}
    return [node for node in _latest_migrations() if node not in applied]


@cache
def _latest_migrations() -> tuple[tuple[str, str], ...]:
    """Return the last migration of each app, read from files once per process."""
    return tuple(MigrationLoader(None).graph.leaf_nodes())


async def _ping_redis() -> None:
    client = redis.asyncio.Redis.from_url(
        settings.REDIS_URL, socket_connect_timeout=CHECK_SECONDS, socket_timeout=CHECK_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )  # fmt: skip
    try:
        await client.ping()
    finally:
        await client.aclose()


async def _has_valid_token(request: HttpRequest) -> bool:
    """Return whether the request has a valid token."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "bearer":
        return False
    try:
        owner = await asyncio.wait_for(sync_to_async(good_token)(token.strip()), CHECK_SECONDS)
    except (TimeoutError, DatabaseError, ImproperlyConfigured):
        return False
    return owner is not None


def _json(content: dict[str, object], status: int) -> JsonResponse:
    response = JsonResponse(content, status=status)
    response["Cache-Control"] = "no-store"
    return response
