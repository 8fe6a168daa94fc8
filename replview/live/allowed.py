"""Open a socket, and keep it open, only for accounts with the role of its ``@page``.

A page of another origin may open none, because the browser sends its cookies from any page.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from channels.auth import get_user
from channels.db import database_sync_to_async
from django.conf import settings

from replview.access.page import page_of
from replview.access.rights import Role, role_of, visible_sources
from replview.access.session_policy import is_over
from replview.access.shares import close_socket, takes_share
from replview.access.visibility import visibility_for
from replview.live import events
from replview.live.hub import the_hub
from replview.store.read.visibility import Visibility

log = logging.getLogger(__name__)

Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]
#: Seconds between two checks of a session, which may have ended meanwhile.
SESSION_SECONDS = 30.0


def guarded(consumer: Any) -> Application:
    """Wrap the socket so that only accounts that have its role may open it."""
    application, socket_page = consumer.as_asgi(), page_of(consumer)

    async def guard(scope: dict[str, Any], receive: Any, send: Any) -> None:
        code = await refusal(scope, socket_page.role if socket_page is not None else None)
        user = scope.get("user") or await get_user(scope)
        if code is None and not takes_share(scope, user.pk):
            code = events.TOO_MANY
        if code is None:
            await application(scope, receive, send)
            return
        name = user.get_username() or "nobody"
        log.warning("a socket was refused (code %s): %s, account %s", code, scope["path"], name)
        await close_socket(receive, send, code)

    guard.replview_page = socket_page  # type: ignore[attr-defined]
    return guard


async def refusal(scope: dict[str, Any], needed: Role | str | None) -> int | None:
    """Return the close code that refuses the socket; None where it may be opened."""
    user = scope.get("user") or await get_user(scope)
    if not (user.is_authenticated and user.is_active):
        return events.NOT_SIGNED_IN
    # Check here too: a socket reconnects by itself, without a page request that ends the session.
    if await database_sync_to_async(is_over)(scope["session"]):
        return events.NOT_SIGNED_IN
    has = await database_sync_to_async(role_of)(user)
    if not isinstance(needed, Role) or has is None or has < needed:
        return events.NOT_ALLOWED
    return None


class SameOrigin:
    """An ASGI application that refuses sockets to pages of other origins."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Pass the socket on, or close it before it is open: the browser gets 403."""
        if is_same_origin(scope):
            await self.application(scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.close"})


def is_same_origin(scope: dict[str, Any]) -> bool:
    """Return whether the page's origin is this host or one of the trusted origins."""
    headers = {name.lower(): value.decode("latin1") for name, value in scope["headers"]}
    origin, host = headers.get(b"origin", ""), headers.get(b"host", "")
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(host) and parts.netloc == host


async def signed_in(scope: dict[str, Any]) -> bool:
    """Return whether the socket's account has a role."""
    user = scope.get("user") or await get_user(scope)
    return await database_sync_to_async(role_of)(user) is not None


async def sees(scope: dict[str, Any], source_id: int | None) -> bool:
    """Return whether the socket's account may see the source; None is never seen."""
    return source_id is not None and await seen_of(scope, [source_id]) != []


async def seen_of(scope: dict[str, Any], source_ids: list[int]) -> list[int]:
    """Return the sources among these that the socket's account may see."""
    user = scope.get("user") or await get_user(scope)
    visible = await database_sync_to_async(visible_sources)(user)
    return [source_id for source_id in source_ids if visible is None or source_id in visible]


async def visibility_of(scope: dict[str, Any]) -> Visibility:
    """Return the visibility of the socket's account."""
    return visibility_for(scope.get("user") or await get_user(scope))


async def until_signed_out(scope: dict[str, Any], source_id: int | None = None) -> None:
    """Wait until the session ends or the account may no longer see the source.

    This is checked when the account changes, and every 30 seconds.
    """
    user, changed = scope.get("user") or await get_user(scope), asyncio.Event()

    def account_changed(account_id: int) -> None:
        changed.set()

    the_hub().watch(events.account_group_of(user.pk), account_changed)
    try:
        await _until_signed_out(scope, source_id, changed)
    finally:
        await the_hub().unwatch(account_changed)


async def _until_signed_out(
    scope: dict[str, Any], source_id: int | None, changed: asyncio.Event
) -> None:
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SESSION_SECONDS):
                await changed.wait()
        changed.clear()
        store = import_module(settings.SESSION_ENGINE).SessionStore
        now = {"session": store(session_key=scope["session"].session_key)}
        if not await signed_in(now) or await database_sync_to_async(is_over)(now["session"]):
            return
        if source_id is not None and not await sees(now, source_id):
            return
