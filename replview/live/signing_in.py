"""Who may open a socket: a signed-in, active user, for as long as the session lasts."""

import asyncio
from importlib import import_module
from typing import Any

from channels.auth import get_user
from django.conf import settings

#: How often a session is looked at again: it may have ended meanwhile.
SESSION_SECONDS = 60.0


async def signed_in(scope: dict[str, Any]) -> bool:
    """Whether the scope's session is of somebody who may read."""
    user = scope.get("user") or await get_user(scope)
    return bool(user.is_authenticated and user.is_active)


async def until_signed_out(scope: dict[str, Any]) -> None:
    """Returns once the session has ended."""
    while True:
        await asyncio.sleep(SESSION_SECONDS)
        store = import_module(settings.SESSION_ENGINE).SessionStore
        session = store(session_key=scope["session"].session_key)
        if not await signed_in({"session": session}):
            return
