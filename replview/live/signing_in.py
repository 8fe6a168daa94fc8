"""Who may keep a socket open: a signed-in, active user with a role, while the session lasts."""

import asyncio
from importlib import import_module
from typing import Any

from channels.auth import get_user
from channels.db import database_sync_to_async
from django.conf import settings

from replview.access.rights import role_of, visible_sources
from replview.access.session_policy import is_over
from replview.access.visibility import visibility_for
from replview.store.read.visibility import Visibility

#: How often a session is looked at again: it may have ended meanwhile.
SESSION_SECONDS = 30.0


async def signed_in(scope: dict[str, Any]) -> bool:
    """Whether the scope's session is of somebody who may read."""
    user = scope.get("user") or await get_user(scope)
    return await database_sync_to_async(role_of)(user) is not None


async def sees(scope: dict[str, Any], source_id: int | None) -> bool:
    """Whether the source is one of those that whoever opened the socket sees."""
    return source_id is not None and await seen_of(scope, [source_id]) != []


async def seen_of(scope: dict[str, Any], source_ids: list[int]) -> list[int]:
    """Those of the sources that are seen."""
    user = scope.get("user") or await get_user(scope)
    visible = await database_sync_to_async(visible_sources)(user)
    return [one for one in source_ids if visible is None or one in visible]


async def visibility_of(scope: dict[str, Any]) -> Visibility:
    """What whoever opened the socket may see."""
    return visibility_for(scope.get("user") or await get_user(scope))


async def until_signed_out(scope: dict[str, Any], source_id: int | None = None) -> None:
    """Returns once the session has ended, or the source is seen no more."""
    while True:
        await asyncio.sleep(SESSION_SECONDS)
        store = import_module(settings.SESSION_ENGINE).SessionStore
        now = {"session": store(session_key=scope["session"].session_key)}
        if not await signed_in(now) or await database_sync_to_async(is_over)(now["session"]):
            return
        if source_id is not None and not await sees(now, source_id):
            return
