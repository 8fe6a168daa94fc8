"""Who may open a socket, and keep it open: whoever has the role that ``@page`` on it says.

A page of another origin may open none: the browser sends its cookies along whoever's page it is.
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
#: How often a session is looked at again: it may have ended meanwhile.
SESSION_SECONDS = 30.0


def guarded(consumer: Any) -> Application:
    """Wrap the socket so that only accounts that have its role may open it."""
    application, facts = consumer.as_asgi(), page_of(consumer)

    async def guard(scope: dict[str, Any], receive: Any, send: Any) -> None:
        code = await refusal(scope, facts.role if facts is not None else None)
        user = scope.get("user") or await get_user(scope)
        if code is None and not takes_share(scope, user.pk):
            code = events.TOO_MANY
        if code is None:
            await application(scope, receive, send)
            return
        name = user.get_username() or "nobody"
        log.warning("a socket was refused (code %s): %s, account %s", code, scope["path"], name)
        await close_socket(receive, send, code)

    guard.replview_page = facts  # type: ignore[attr-defined]
    return guard


async def refusal(scope: dict[str, Any], needed: Role | str | None) -> int | None:
    """Return the close code to refuse the socket with; None where it may be opened."""
    user = scope.get("user") or await get_user(scope)
    if not (user.is_authenticated and user.is_active):
        return events.NOT_SIGNED_IN
    # No request of a page has come to end it: a socket is asked for by itself, again and again.
    if await database_sync_to_async(is_over)(scope["session"]):
        return events.NOT_SIGNED_IN
    has = await database_sync_to_async(role_of)(user)
    if not isinstance(needed, Role) or has is None or has < needed:
        return events.NOT_ALLOWED
    return None


class SameOrigin:
    """Refuses a socket to pages that are not ours."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Go on, or close before the socket is open: the browser gets 403."""
        if is_same_origin(scope):
            await self.application(scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.close"})


def is_same_origin(scope: dict[str, Any]) -> bool:
    """Whether the page that asks was served under this host, or is one of the trusted origins."""
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
    user = scope.get("user") or await get_user(scope)
    return await database_sync_to_async(role_of)(user) is not None


async def sees(scope: dict[str, Any], source_id: int | None) -> bool:
    return source_id is not None and await seen_of(scope, [source_id]) != []


async def seen_of(scope: dict[str, Any], source_ids: list[int]) -> list[int]:
    user = scope.get("user") or await get_user(scope)
    visible = await database_sync_to_async(visible_sources)(user)
    return [one for one in source_ids if visible is None or one in visible]


async def visibility_of(scope: dict[str, Any]) -> Visibility:
    return visibility_for(scope.get("user") or await get_user(scope))


async def until_signed_out(scope: dict[str, Any], source_id: int | None = None) -> None:
    """Wait until the session has ended, or the account may not see the source any more: looked at
    when something was done to the account, and now and then.
    """
    user, done = scope.get("user") or await get_user(scope), asyncio.Event()

    def look(account_id: int) -> None:
        done.set()

    the_hub().watch(events.account_group_of(user.pk), look)
    try:
        await _until_signed_out(scope, source_id, done)
    finally:
        await the_hub().unwatch(look)


async def _until_signed_out(
    scope: dict[str, Any], source_id: int | None, done: asyncio.Event
) -> None:
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SESSION_SECONDS):
                await done.wait()
        done.clear()
        store = import_module(settings.SESSION_ENGINE).SessionStore
        now = {"session": store(session_key=scope["session"].session_key)}
        if not await signed_in(now) or await database_sync_to_async(is_over)(now["session"]):
            return
        if source_id is not None and not await sees(now, source_id):
            return
