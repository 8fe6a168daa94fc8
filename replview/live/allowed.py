"""Who may open which socket: each address with the role it needs; what is missing is refused.

As ``access.allowed`` is for pages. A page of another origin may open none: the browser sends its
cookies along whoever's page it is, and says whose in ``Origin``.
"""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from channels.auth import get_user
from channels.db import database_sync_to_async
from django.conf import settings

from replview.access.rights import Role, role_of
from replview.access.session_policy import is_over
from replview.live import events

#: By the address as ``routing`` has it.
ALLOWED_SOCKETS: dict[str, Role] = {
    "ws/live/<int:slot_id>/": Role.VIEWER,
    "ws/samples/": Role.VIEWER,
    "ws/exports/": Role.OPERATOR,
}

Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


def guarded(route: str, application: Any) -> Application:
    """The socket, for those alone who have its role."""

    async def guard(scope: dict[str, Any], receive: Any, send: Any) -> None:
        code = await refusal(scope, ALLOWED_SOCKETS.get(route))
        if code is None:
            await application(scope, receive, send)
            return
        await receive()
        # A browser is told the code of a socket only once that was open.
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": code})

    return guard


async def refusal(scope: dict[str, Any], needed: Role | None) -> int | None:
    """The close code for whoever asks; None: let them in."""
    user = scope.get("user") or await get_user(scope)
    if not (user.is_authenticated and user.is_active):
        return events.NOT_SIGNED_IN
    # No request of a page has come to end it: a socket is asked for by itself, again and again.
    if await database_sync_to_async(is_over)(scope["session"]):
        return events.NOT_SIGNED_IN
    has = await database_sync_to_async(role_of)(user)
    if needed is None or has is None or has < needed:
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
